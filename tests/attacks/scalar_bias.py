"""A bias of one element and no dimensions."""

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
    bias = b.constant("bias", np.array(0.5, np.float32))
    made = b.op("CONV_2D", [x, weights, bias], conv2d_attrs("SAME", 1, 1), name="y")
    return dumps(b.output(made).model(), "tflite")
