"""MATRIX_BAND_PART_EX: what is far from the diagonal of matrices becomes zero."""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.nnapi.record import nnapi_kind
from circlet.ops.opdef import Arrays, TensorType
from circlet.ops.operands import count, moves_bytes, operand, present, when_ranked


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """A negative number of diagonals keeps all on its side."""
    matrices = present(arrays[0])
    below, above = (int(present(each).reshape(-1)[0]) for each in arrays[1:3])
    rows, columns = np.indices(matrices.shape[-2:])
    kept = (below < 0) | (rows - columns <= below)
    kept &= (above < 0) | (columns - rows <= above)
    return [np.where(kept, matrices, np.zeros((), matrices.dtype))]


def _fits(op: Op) -> bool:
    numbers = [count(operand(op, index).shape) in (1, None) for index in (1, 2)]
    return len(operand(op, 0).shape) >= 2 and all(numbers)


nnapi_kind(
    "MATRIX_BAND_PART_EX",
    _evaluate,
    lambda op: [TensorType(operand(op, 0).dtype, operand(op, 0).shape)],
    moves_bytes,
    inputs=(3, 3),
    dtypes=tuple(f"{name} INT32 INT32 -> {name}" for name in ("FLOAT32", "INT32")),
    rules=(when_ranked("sizes", _fits, "it needs matrices and two numbers of diagonals"),),
    numerics="exact",
)
