"""What the calls of `sum_int.h` families have in common: column blocks, and requantisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lowering import Context, ParamValue
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import zero_of
from circlet.ops.requantize import activation_of, activation_range, wide_multiplier

Int64 = npt.NDArray[np.int64]

_MOST_VECTORS = 4


def column_block(context: Context, columns: int) -> tuple[int, int]:
    """Vectors of a block of columns, and the number of columns in it."""
    lanes = context.vector_bytes // 4
    vectors = min(_MOST_VECTORS, -(-columns // lanes))
    return vectors, vectors * lanes


def column_parameters(
    columns: int,
    width: int,
    bias: Int64 | None,
    factors: tuple[Int64, Int64],
    *,
    wide: bool,
    real: npt.NDArray[np.float64] | None = None,
) -> Int64:
    """Per block of `width` columns: bias, multiplier, left shift, right shift.

    Multipliers are doubles where `real` gives them.
    """
    mantissa, shift = (np.broadcast_to(part, columns) for part in factors)
    table = np.zeros((4, columns), np.int64)
    if bias is not None:
        table[0] = bias
    if real is not None:
        table[1] = np.broadcast_to(real.reshape(-1), columns).astype(np.float64).view(np.int64)
    elif wide:
        table[1], table[3] = wide_multiplier(mantissa, shift)
    else:
        table[1], table[2], table[3] = mantissa, np.maximum(shift, 0), np.maximum(-shift, 0)
    padding = np.pad(table, ((0, 0), (0, -columns % width)))
    padding[3, columns:] = 1
    return np.ascontiguousarray(padding.reshape(4, -1, width).swapaxes(0, 1))


def bounds(op: Op) -> dict[str, ParamValue]:
    """Zero point and limits of the result."""
    activation = activation_of(op)
    low, high = activation_range(activation, op.outputs[0])
    return {"zero": zero_of(op.outputs[0]), "low": low, "high": high}


def why_not_int16(op: Op, data: Tensor, weights: Tensor, bias: Tensor | None) -> str | None:
    """Why an op is no sum of int16 activations times constant int8 weights, or None."""
    if (data.dtype, weights.dtype) != (DType.INT16, DType.INT8):
        return "not int16 activations and int8 weights"
    if data.is_constant or not weights.is_constant or not (bias is None or bias.is_constant):
        return "weights and bias must be constant, and the input not"
    return "a size is 0" if data.elements == 0 or op.outputs[0].elements == 0 else None
