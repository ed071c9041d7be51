"""RANGE from 0 to 2^31 - 1, by one."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    b = builder()
    ends = [b.input(name, DType.INT32, ()) for name in ("start", "end", "step")]
    return dumps(b.output(b.op("RANGE", ends, name="numbers")).model(), "tflite")


def inputs() -> list[np.ndarray]:
    return [np.array(value, np.int32) for value in (0, 2**31 - 1, 1)]
