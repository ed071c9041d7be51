"""Soft suppression of boxes whose overlap is no number: every score becomes one, too."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops import NoAttrs
from circlet.ops.build import builder

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    boxes, scores = b.input("boxes", DType.FLOAT32, (3, 4)), b.input("scores", DType.FLOAT32, (3,))
    most = b.constant("most", np.int32(3))
    limits = [b.constant(f"limit{i}", np.float32(value)) for i, value in enumerate((1, 0, 0.5))]
    made = [
        Tensor("chosen", DType.INT32, (3,)),
        Tensor("kept", DType.FLOAT32, (3,)),
        Tensor("found", DType.INT32, ()),
    ]
    b.op_many("NON_MAX_SUPPRESSION_V5", [boxes, scores, most, *limits], made, NoAttrs())
    return dumps(b.output(*made).model(), "tflite")


def inputs() -> list[np.ndarray]:
    return [np.full((3, 4), np.inf, np.float32), np.array([0.9, 0.8, 0.7], np.float32)]
