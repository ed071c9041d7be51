"""A first convolution of no filters over an image of open sizes, which pixels are guessed of."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.windows import conv2d_attrs

CODE = "E-GRAPH"
RUNS = True


def inputs() -> list[np.ndarray]:
    return [np.ones((1, 8, 8, 3), np.float32)]


def make() -> bytes:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None,) * 4)
    weights = b.constant("weights", np.ones((0, 1, 1, 3), np.float32))
    bias = b.constant("bias", np.ones(0, np.float32))
    made = b.op("CONV_2D", [x, weights, bias], conv2d_attrs("SAME", 1, 1), name="y")
    return dumps(b.output(made).model(), "tflite")
