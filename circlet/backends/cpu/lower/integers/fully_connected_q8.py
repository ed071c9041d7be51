"""FULLY_CONNECTED over 8-bit activations and weights."""

from __future__ import annotations

from functools import partial

from circlet.backends.cpu.lower.integers.conv_q8 import (
    Product,
    call_product,
    fold_zero_points,
    woven_slots,
)
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    Scaling,
    Tile,
    double_scaling,
    output_bounds,
    refuses_weighted,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.windows import Places, Runs
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.target.targets import Target


def rows_of(op: Op) -> Places:
    """Rows of the input as the pixels of one image row."""
    units, depth = operand(op, 1).static_shape
    rows = operand(op, 0).elements // depth
    return Places(1, 1, rows, (0, 0, depth), (0, 0, units))


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_weighted(op, target)


def _lower(op: Op, context: Context) -> None:
    offset = product_offset(operand(op, 0), context.target)
    call_product(integer_product(op, context, offset), context)


def integer_product(op: Op, context: Context, offset: int) -> Product:
    """The rows of the input times the weights; `offset` is added to activations."""
    units, depth = operand(op, 1).static_shape
    lanes, zero = context.vector_bytes // 4, weights_zero(op)

    def scaling(weights: Int8, tile: Tile) -> Scaling:
        bias, _ = fold_zero_points(op, weights, zero, offset)
        return double_scaling(op, bias, woven_slots(units, tile, lanes))

    return Product(
        op,
        Runs(1, 1, depth, 0, 0),
        rows_of(op),
        units,
        partial(signed_weights, op),
        scaling,
        zero,
        offset != 0,
        TensorRef(operand(op, 0)),
        output_bounds(op),
    )


LOWERINGS.add(Lowering("FULLY_CONNECTED", "fully_connected_q8", _refuses, _lower))
