"""Products of int16 activations with constant int8 weights, as calls of `conv_q16.h`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.sum_int import bounds, column_parameters, why_not_int16
from circlet.backends.cpu.lower.integers.tiles import choose_tile
from circlet.backends.cpu.lower.products.product import Product, of_rows
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lower.products.windows import conv_border, convolution, splits_of
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, Rank
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantization import requantization_of
from circlet.ops.requantize import quantize_multipliers, wide_multiplier
from circlet.ops.weighted import output_factors, real_factors
from circlet.target.targets import Target

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]

SMALL, ONCE, TWICE = "CONV_Q16_SMALL", "CONV_Q16_ONCE", "CONV_Q16_TWICE"
REAL = "CONV_Q16_REAL"
_MOST_VECTORS = 4
_MOST_WIDE_PIXELS = 4
_MOST_WIDE_VECTORS = 2


class Q16Epilogue(NamedTuple):
    """What happens to the sums of a product of int16 activations.

    Attributes:
        bias: One per channel.
        factors: Mantissas and shifts from sums to output steps.
        wide: Whether sums have 64 bits and are scaled once; else they wrap to 32, scaled twice.
        real: Factors as doubles, for ops that scale by these.
    """

    bias: Int64
    factors: tuple[Int64, Int64]
    wide: bool
    real: npt.NDArray[np.float64] | None = None


Q16Product = Product[Q16Epilogue]


def wide_tile(tile: Tile) -> Tile:
    """What registers hold of a tile where sums have 64 bits, which take two registers each."""
    return Tile(min(tile.pixels, _MOST_WIDE_PIXELS), min(tile.whole, _MOST_WIDE_VECTORS))


def pack_pairs(weights: Int16, columns: int) -> Int16:
    """[channels, down, across, elements] to [blocks, pairs of elements, columns, 2].

    A pair of each column is what a dot product of pairs (VPMADDWD, SMLAL) takes. A last element
    without a partner stands behind a zero, unless the run has no other.
    """
    channels, down, across, length = weights.shape
    whole, pairs = length // 2 * 2, -(-length // 2)
    runs = np.zeros((-(-channels // columns) * columns, down, across, pairs * 2), np.int16)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if whole < length:
        runs[:channels, ..., whole + int(length > 1)] = weights[..., whole]
    blocks = runs.reshape(-1, columns, down * across * pairs, 2)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))


def call_conv_q16(product: Q16Product, context: Context) -> None:
    """Append the call of the kernel for a product."""
    row, lanes, filters = product.im2col.joined(), context.vector_bytes // 4, product.filters
    weights = product.weights().reshape(filters, row.rows, row.columns, row.length)
    best = choose_tile(product.width, filters, context.target, lanes)
    tile = Tile(best.pixels, min(best.whole, _MOST_VECTORS))
    form, flush = _form(product.epilogue, weights)
    if flush:
        tile = wide_tile(tile)
    width = tile.channels(lanes)
    packed = pack_pairs(weights, width)
    row_tiles = -(-product.width // tile.pixels)
    tiles = product.rows * row_tiles
    splits = splits_of(len(packed), packed[0].nbytes, tiles)
    shape = product.params()
    del shape["rows"]
    context.call(
        product.op,
        Kernel("conv_q16.h", "conv_q16", (tile.pixels, tile.whole, form, flush)),
        {
            **shape,
            "run": row.length,
            "block_weights": packed[0].size,
            "row_tiles": row_tiles,
            "tiles": tiles,
            "channels": filters,
            "blocks": len(packed),
            "splits": splits,
            **bounds(product.op),
        },
        (
            product.source.ref,
            context.constant(packed),
            context.constant(_parameters(product.epilogue, form, width, lanes)),
            product.result.ref,
        ),
        (product.result.tensor,),
        tasks=tiles * splits,
    )


def _form(epilogue: Q16Epilogue, weights: Int16) -> tuple[str, int]:
    """How outputs are scaled, and whether their sums may need more than 32 bits."""
    if not epilogue.wide and epilogue.real is None:
        return TWICE, 0
    flat = np.abs(weights.reshape(len(weights), -1).astype(np.int64))
    reach = (flat.sum(axis=1) << 15) + np.abs(epilogue.bias)
    needs_more = int((reach >= 1 << 31).any())
    if epilogue.real is not None:
        return REAL, needs_more
    if needs_more:
        return ONCE, 1
    _, right = wide_multiplier(*epilogue.factors)
    return (SMALL if ((right >= 16) & (right <= 32)).all() else ONCE), 0


def _parameters(epilogue: Q16Epilogue, form: str, width: int, lanes: int) -> np.ndarray:
    bias, factors, wide, real = epilogue
    if form != SMALL:
        return column_parameters(len(bias), width, bias, factors, wide=wide, real=real)
    multiplier, right = wide_multiplier(*factors)
    factors32 = np.broadcast_to(multiplier << (32 - right), len(bias))
    table = np.pad(np.stack([bias, factors32]), ((0, 0), (0, -len(bias) % width)))
    parameters = table.astype(np.int32).reshape(2, -1, lanes).swapaxes(0, 1)
    return np.ascontiguousarray(parameters)


def _refuses(op: Op, target: Target) -> str | None:
    data, weights = operand(op, 0), operand(op, 1)
    reason = why_not_int16(op, data, weights, op.input(2))
    grouped = op.kind == "CONV_2D" and weights.shape[3] != data.shape[3]
    return reason or ("grouped" if grouped else None)


def stored_weights(op: Op) -> Int16:
    """The weights of an op as the kernel's pairs have them."""
    return np.asarray(operand(op, 1).data, np.int16)


def int16_epilogue(op: Op) -> Q16Epilogue:
    """What happens to the sums of an op over [data, weights, bias]."""
    filters, bias = operand(op, 1), op.input(2)
    zeros = np.zeros(filters.static_shape[0], np.int64)
    offsets = zeros if bias is None else np.asarray(bias.data, np.int64).reshape(-1)
    tensors = operand(op, 0), filters, op.outputs[0]
    policy, factors = requantization_of(op), quantize_multipliers(output_factors(*tensors))
    real = real_factors(*tensors) if policy.rounding == "float" else None
    return Q16Epilogue(offsets, factors, policy.accumulator_bits == 64, real)


def _lower_conv(op: Op, context: Context) -> None:
    filters, rows, columns, depth = operand(op, 1).static_shape
    weights = (filters, rows, columns, depth), lambda: stored_weights(op)
    call_conv_q16(convolution(op, context, weights, int16_epilogue(op)), context)


def _lower_rows(op: Op, context: Context) -> None:
    units, depth = operand(op, 1).static_shape
    data, result, weights = operand(op, 0), op.outputs[0], lambda: stored_weights(op)
    call_conv_q16(of_rows(op, data, result, (units, depth), weights, int16_epilogue(op)), context)


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_q16",
        _refuses,
        _lower_conv,
        conv_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.INT16,
    )
)
LOWERINGS.add(
    Lowering("FULLY_CONNECTED", "fully_connected_q16", _refuses, _lower_rows, rank=Rank.INT16)
)
