"""Look-up tables of 8-bit functions of one operand: built here once, read by every backend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op, Tensor
from circlet.ops.functions import round_half_away
from circlet.ops.opdef import get
from circlet.ops.operands import limits, operand, scale_of, zero_of

Table = npt.NDArray[np.int8] | npt.NDArray[np.uint8]
Transform = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]

EIGHT_BIT = frozenset({DType.INT8, DType.UINT8})


def table_of(op: Op) -> Table | None:
    """The op as a table of 256 results, indexed by the bits of the input; None where it is none.

    Any kind with one 8-bit operand and a scalar expression is such a function.
    """
    record, source = get(op), operand(op, 0)
    if record.scalar is None or len(op.inputs) != 1 or source.dtype not in EIGHT_BIT:
        return None
    values = np.arange(256, dtype=np.uint8).view(source.dtype.numpy)
    return record.evaluate(op, [values])[0]


def tabulated(source: Tensor, result: Tensor, transform: Transform) -> Table:
    """A real function on quantised values, as the reference kernels tabulate it, in float32."""
    stored = np.arange(256, dtype=np.uint8).view(source.dtype.numpy).astype(np.int32)
    real = np.float32(scale_of(source)) * (stored - zero_of(source)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = transform(real) * (np.float32(1) / np.float32(scale_of(result)))
        whole = round_half_away(scaled) + np.float32(zero_of(result))
    low, high = limits(result.dtype)
    return np.clip(whole, low, high).astype(np.int32).astype(result.dtype.numpy)


def apply(table: Table, values: npt.NDArray[np.generic]) -> Table:
    """Each value's entry of a table."""
    return table[values.view(np.uint8)]
