"""One convolution of 1.6 * 10^13 multiply-accumulates, which nothing could stop midway."""

from __future__ import annotations

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.windows import conv2d_attrs

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 2000, 2000, 1))
    weights = b.input("weights", DType.FLOAT32, (1, 2000, 2000, 1))
    made = b.op("CONV_2D", [x, weights, None], conv2d_attrs("SAME", 1, 1), name="y")
    return dumps(b.output(made).model(), "tflite")
