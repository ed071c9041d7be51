"""Products of int16 activations with constant int8 weights, as calls of `conv_q16.h`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.q8 import choose_tile
from circlet.backends.cpu.lower.integers.sum_int import bounds, column_records, why_not_int16
from circlet.backends.cpu.lower.windows import (
    Places,
    Runs,
    conv_border,
    places_of,
    runs_of,
    splits_of,
    start_of,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, TensorRef
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
MOST_WIDE_PIXELS = 4
MOST_WIDE_VECTORS = 2


@dataclass(frozen=True)
class Product16:
    """Rows of int16 activations times a constant matrix.

    Attributes:
        weights: int16 [channels, runs down, runs across, elements of a run].
        bias: One per channel.
        factors: Mantissas and shifts from accumulators to output steps.
        wide: Whether sums have 64 bits and are scaled once; else they wrap to 32, scaled twice.
        real: Factors as doubles, for ops that scale by these.
    """

    op: Op
    runs: Runs
    places: Places
    weights: Int16
    bias: Int64
    factors: tuple[Int64, Int64]
    wide: bool
    data: TensorRef
    real: npt.NDArray[np.float64] | None = None


def pack_pairs(weights: Int16, columns: int) -> Int16:
    """[channels, down, across, elements] to [blocks, pairs of elements, columns, 2].

    A last element without a partner stands behind a zero, unless the run has no other.
    """
    channels, down, across, length = weights.shape
    whole, pairs = length // 2 * 2, -(-length // 2)
    runs = np.zeros((-(-channels // columns) * columns, down, across, pairs * 2), np.int16)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if whole < length:
        runs[:channels, ..., whole + int(length > 1)] = weights[..., whole]
    blocks = runs.reshape(-1, columns, down * across * pairs, 2)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))


def call_product16(product: Product16, context: Context) -> None:
    """Append the call of the kernel for a product."""
    runs, places, result = product.runs, product.places, product.op.outputs[0]
    lanes, channels = context.vector_bytes // 4, len(product.weights)
    tile = choose_tile(places.row_pixels, channels, context.target, lanes)
    pixels, vectors = tile.pixels, min(tile.vectors, 4)
    form, flush = _form(product)
    if flush:
        pixels, vectors = min(pixels, MOST_WIDE_PIXELS), min(vectors, MOST_WIDE_VECTORS)
    packed = pack_pairs(product.weights, vectors * lanes)
    row_tiles = -(-places.row_pixels // pixels)
    tiles = places.rows * row_tiles
    splits = splits_of(len(packed), packed[0].nbytes, tiles)
    shape = places.params()
    del shape["rows"]
    context.call(
        product.op,
        Kernel("conv_q16.h", "conv_q16", (pixels, vectors, form, flush)),
        {
            **shape,
            **runs.params(),
            "run": runs.bytes,
            "block_weights": packed[0].size,
            "row_tiles": row_tiles,
            "tiles": tiles,
            "channels": channels,
            "blocks": len(packed),
            "splits": splits,
            **bounds(product.op),
        },
        (
            product.data,
            context.constant(packed),
            context.constant(_records(product, form, vectors * lanes, lanes)),
            TensorRef(result),
        ),
        (result,),
        tasks=tiles * splits,
    )


def _form(product: Product16) -> tuple[str, int]:
    """How outputs are scaled, and whether their sums may need more than 32 bits."""
    if not product.wide and product.real is None:
        return TWICE, 0
    flat = np.abs(product.weights.reshape(len(product.weights), -1).astype(np.int64))
    reach = (flat.sum(axis=1) << 15) + np.abs(product.bias)
    needs_more = int((reach >= 1 << 31).any())
    if product.real is not None:
        return REAL, needs_more
    if needs_more:
        return ONCE, 1
    _, right = wide_multiplier(*product.factors)
    return (SMALL if ((right >= 16) & (right <= 32)).all() else ONCE), 0


def _records(product: Product16, form: str, width: int, lanes: int) -> np.ndarray:
    channels = len(product.bias)
    if form != SMALL:
        bias, factors, wide = product.bias, product.factors, product.wide
        return column_records(channels, width, bias, factors, wide=wide, real=product.real)
    multiplier, right = wide_multiplier(*product.factors)
    factors32 = np.broadcast_to(multiplier << (32 - right), channels)
    table = np.pad(np.stack([product.bias, factors32]), ((0, 0), (0, -channels % width)))
    records = table.astype(np.int32).reshape(2, -1, lanes).swapaxes(0, 1)
    return np.ascontiguousarray(records)


def _refuses(op: Op, target: Target) -> str | None:
    data, weights = operand(op, 0), operand(op, 1)
    reason = why_not_int16(op, data, weights, op.input(2))
    grouped = op.kind == "CONV_2D" and weights.shape[3] != data.shape[3]
    return reason or ("grouped" if grouped else None)


def _product(op: Op, runs: Runs, places: Places, data: TensorRef) -> Product16:
    source, filters, bias = operand(op, 0), operand(op, 1), op.input(2)
    channels = filters.static_shape[0]
    stored = np.asarray(filters.data, np.int16)
    offsets = np.zeros(channels, np.int64) if bias is None else np.asarray(bias.data, np.int64)
    tensors = source, filters, op.outputs[0]
    policy, factors = requantization_of(op), quantize_multipliers(output_factors(*tensors))
    return Product16(
        op,
        runs,
        places,
        stored.reshape(channels, runs.down, runs.across, runs.bytes),
        offsets.reshape(-1),
        factors,
        policy.accumulator_bits == 64,
        data,
        real_factors(*tensors) if policy.rounding == "float" else None,
    )


def _lower_conv(op: Op, context: Context) -> None:
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    source = TensorRef(operand(op, 0), start_of(op, data))
    call_product16(_product(op, runs_of(op, data), places_of(op, data, out), source), context)


def _lower_rows(op: Op, context: Context) -> None:
    units, depth = operand(op, 1).static_shape
    data = operand(op, 0)
    places = Places(1, 1, data.elements // depth, (0, 0, depth), (0, 0, units))
    call_product16(_product(op, Runs(1, 1, depth, 0, 0), places, TensorRef(data)), context)


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_q16",
        _refuses,
        _lower_conv,
        conv_border,
        strided_inputs=True,
        strided_output=True,
    )
)
LOWERINGS.add(Lowering("FULLY_CONNECTED", "fully_connected_q16", _refuses, _lower_rows))
