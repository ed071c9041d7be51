"""FULLY_CONNECTED over 8-bit activations and weights."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.conv_q8 import (
    Places,
    Product,
    Runs,
    call_product,
    fold_zero_points,
    woven_slots,
)
from circlet.backends.cpu.lower.q8 import (
    activation_offset,
    choose_tile,
    double_scaling,
    output_bounds,
    refuses_weighted,
    signed_weights,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op
from circlet.ops.operands import operand


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
    data = operand(op, 0)
    weights, weight_zero = signed_weights(op)
    units, depth = weights.shape
    offset = activation_offset(data, context.target)
    lanes, places = context.vector_bytes // 4, rows_of(op)
    tile = choose_tile(places.row_pixels, units, context.target, lanes)
    bias, _ = fold_zero_points(op, weights, weight_zero, offset)
    scaling = double_scaling(op, bias, woven_slots(units, tile, lanes))
    shaped = np.reshape(weights, (units, 1, 1, depth))
    runs = Runs(1, 1, depth, 0, 0)
    bounds, source = output_bounds(op), TensorRef(data)
    product = Product(op, runs, places, shaped, weight_zero, offset != 0, source, bounds)
    call_product(product, scaling, tile, context)


LOWERINGS.add(Lowering("FULLY_CONNECTED", "fully_connected_q8", _refuses, _lower))
