"""An option that only newer TFLite files have, in an operator that numpy runs."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.windows import conv2d_attrs

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 3, 3, 2))
    weights = b.constant("weights", np.ones((1, 1, 1, 2), np.float32))
    attrs = conv2d_attrs("SAME", 1, 1, quantized_bias_type="FLOAT8_E5M2")
    return dumps(b.output(b.op("CONV_2D", [x, weights, None], attrs, name="y")).model(), "tflite")
