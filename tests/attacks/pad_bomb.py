"""PAD with widths that the caller gives."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    b = builder()
    x, widths = b.input("x", DType.FLOAT32, (2, 2)), b.input("widths", DType.INT32, (2, 2))
    return dumps(b.output(b.op("PAD", [x, widths], name="padded")).model(), "tflite")


def inputs() -> list[np.ndarray]:
    return [np.ones((2, 2), np.float32), np.full((2, 2), 1 << 30, np.int32)]
