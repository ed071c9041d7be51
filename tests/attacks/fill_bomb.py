"""FILL with sizes that the caller gives: four tebibytes."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    b = builder()
    sizes = b.input("sizes", DType.INT32, (3,))
    made = b.op("FILL", [sizes, b.constant("one", np.float32(1))], name="filled")
    return dumps(b.output(made).model(), "tflite")


def inputs() -> list[np.ndarray]:
    return [np.array([1 << 16, 16, 1 << 20], np.int32)]
