"""FULLY_CONNECTED over 8-bit activations and weights."""

from __future__ import annotations

from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    fold_zero_points,
    output_bounds,
    refuses_weighted,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import (
    Requantisation,
    double_precision,
    interleaved,
)
from circlet.backends.cpu.lower.products.product import of_rows
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.requantization import is_default
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_weighted(op, target)


def _lower(op: Op, context: Context) -> None:
    offset = product_offset(operand(op, 0), context.target)
    call_conv_q8(integer_rows(op, context, offset), context)


def integer_rows(op: Op, context: Context, offset: int) -> Q8Product:
    """The rows of the input times the weights; `offset` is added to activations."""
    units, depth = operand(op, 1).static_shape
    lanes, zero = context.vector_bytes // 4, weights_zero(op)

    def requantise(weights: Int8, width: int) -> Requantisation:
        folded = fold_zero_points(op, weights, zero, offset)
        order = interleaved(units, width, lanes)
        if is_default(op):
            return double_precision(op, folded[0], order, context.target)
        return integer_requantisation(op, folded, order, context.target)

    epilogue = Q8Epilogue(requantise, zero, offset != 0, output_bounds(op))
    data, result = operand(op, 0), op.outputs[0]
    return of_rows(op, data, result, (units, depth), lambda: signed_weights(op), epilogue)


LOWERINGS.add(Lowering("FULLY_CONNECTED", "fully_connected_q8", _refuses, _lower, rank=Rank.INT8))
