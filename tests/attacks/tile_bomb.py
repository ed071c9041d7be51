"""TILE with multiples that the caller gives: a row becomes 64 tebibytes."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    b = builder()
    x, times = b.input("x", DType.FLOAT32, (4, 4)), b.input("times", DType.INT32, (2,))
    return dumps(b.output(b.op("TILE", [x, times], name="tiled")).model(), "tflite")


def inputs() -> list[np.ndarray]:
    return [np.ones((4, 4), np.float32), np.array([1 << 20, 1 << 20], np.int32)]
