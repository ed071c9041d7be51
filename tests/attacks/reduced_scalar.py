"""A reduction over axes that a scalar does not have."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    axes = b.constant("axes", np.array([0, 1, 2], np.int32))
    made = b.op("REDUCE_ANY", [b.input("x", DType.BOOL, ()), axes], name="any")
    return dumps(b.output(made).model(), "tflite")
