"""An 8-bit layer that is given no rows."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Quantization
from circlet.ops.build import builder

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    quant = Quantization.per_tensor(0.5)
    x = b.input("x", DType.INT8, (0, 8), quant)
    weights = b.constant("weights", np.ones((4, 8), np.int8), quant)
    made = b.op("FULLY_CONNECTED", [x, weights, None], name="y", quant=quant)
    return dumps(b.output(made).model(), "tflite")
