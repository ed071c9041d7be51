"""CONV_2D over 8-bit activations and weights, and the matrix product that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.costs import costs_of
from circlet.backends.cpu.lower.integers.computed_q8 import (
    ComputedWeights,
    call_pack,
    pack_kernel,
)
from circlet.backends.cpu.lower.integers.i8mm import (
    dots_of,
    group_of,
    product_offset,
    product_tiles,
)
from circlet.backends.cpu.lower.integers.q8 import (
    HYBRIDS,
    Int8,
    Int64,
    Scaling,
    Slots,
    Tile,
    bias_of,
    half_of,
    output_bounds,
    refuses_weighted,
    signed_weights,
    tile_work,
    weights_zero,
    woven_order,
)
from circlet.backends.cpu.lower.integers.scaling_q8 import integer_scaling
from circlet.backends.cpu.lower.windows import (
    Places,
    Runs,
    conv_border,
    places_of,
    runs_of,
    splits_of,
    start_of,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    NoRef,
    Packed,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.tuning.choices import Choice
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.requantize import scalar_quant
from circlet.target.targets import Target

_FEW_VECTORS = 2
_ROW_ALIGNMENT = 64
_SUM_BYTES = 16
_NO_SUMS = "CONV_Q8_NO_SUMS"
_SUMS_IN = "CONV_Q8_SUMS_IN"
_SUMS_SPLAT = "CONV_Q8_SUMS_SPLAT"


class Product(NamedTuple):
    """One call of `conv_q8` before it is laid out for a target.

    Attributes:
        channels: Output channels.
        weights: Gives them, int8 [channels, ...], the rest as long as all runs.
        scaling: How accumulators of some slots become outputs, given the weights.
        weight_zero: What remains to be taken off each weight.
        flip: Whether activations change their top bit.
        scales: Where the scales of quantised float images stand.
        part: Names the part of the op that this is, where the op is several products.
        result_start: Where the first output stands, in elements from the result's first.
        computed: Where weights lie that are known at run time only; `weights` and `scaling` are
            not asked then.
    """

    op: Op
    runs: Runs
    places: Places
    channels: int
    weights: Callable[[], Int8]
    scaling: Callable[[Int8, Tile], Scaling]
    weight_zero: int
    flip: bool
    data: Ref
    extra: dict[str, ParamValue]
    scales: Ref = NoRef()
    part: str = ""
    result_start: int = 0
    computed: ComputedWeights | None = None

    @property
    def group_bytes(self) -> int:
        """Bytes of a run as groups see them: computed weights are packed by groups of four."""
        return self.runs.bytes if self.computed is None else 0

    def params(self) -> dict[str, ParamValue]:
        """The kernels' parameters that do not depend on tiles."""
        return {
            **self.places.params(),
            **self.runs.params(),
            "run_bytes": self.runs.bytes,
            "channels": self.channels,
            "weight_zero": self.weight_zero,
            **self.extra,
        }


def fold_zero_points(op: Op, weights: Int8, weight_zero: int, offset: int) -> tuple[Int64, Int64]:
    """The bias with all that zero points add but for the sums of activations, and the reach.

    The reach of a channel is how far from zero its accumulator can get.
    """
    flat = weights.reshape(weights.shape[0], -1).astype(np.int16) - np.int16(weight_zero)
    data = operand(op, 0)
    zero, (low, high) = scalar_quant(data)[1], limits(data.dtype)
    bias, sums = bias_of(op, flat.shape[0]), flat.sum(axis=1, dtype=np.int64)
    above = np.maximum(flat, 0).sum(axis=1, dtype=np.int64)
    ends = np.array([[high - zero, zero - low], [zero - low, high - zero]])
    most = (ends @ np.stack([above, above - sums])).max(axis=0)
    return bias - (zero + offset) * sums, np.abs(bias) + most


def pack(weights: Int8, order: npt.NDArray[np.intp], group: int = 4) -> Int8:
    """[channels, down, across, bytes] to [blocks, groups of bytes, columns, bytes of a group].

    Column c of a block holds its channel order[c]. The bytes of a run's last group stand at its
    end, unless the run is shorter than the group.
    """
    columns = order.size
    channels, down, across, length = weights.shape
    whole, groups = length // group * group, -(-length // group)
    runs = np.zeros((-(-channels // columns) * columns, down, across, groups * group), np.int8)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if length < group:
        runs[:channels, ..., :length] = weights
    elif whole < length:
        runs[:channels, ..., whole - length :] = weights[..., whole:]
    blocks = runs.reshape(-1, columns, down * across * groups, group)
    return np.ascontiguousarray(blocks[:, order].transpose(0, 2, 1, 3))


def _order(tile: Tile, lanes: int, form: str) -> npt.NDArray[np.intp]:
    """The channel of each column of a block: floats are stored register by register."""
    return np.arange(tile.vectors * lanes) if form in HYBRIDS else woven_order(tile.vectors, lanes)


def call_product(product: Product, context: Context) -> None:
    """Append the call of the kernel for a product."""
    runs, places, result = product.runs, product.places, product.op.outputs[0]
    lanes = context.vector_bytes // 4
    tile = _tile(product, context)
    packed, form = _packed(product, tile, context)
    blocks = -(-product.channels // (tile.vectors * lanes))
    group = group_of(product.group_bytes, context.target)
    run_bytes = -(-runs.bytes // group) * group
    block_bytes = runs.down * runs.across * run_bytes * tile.vectors * lanes
    row_tiles = -(-places.row_pixels // tile.pixels)
    splits = splits_of(blocks, block_bytes, places.rows * row_tiles)
    params: dict[str, ParamValue] = {
        **product.params(),
        "block_bytes": block_bytes,
        "row_tiles": row_tiles,
        "blocks": blocks,
        "splits": splits,
    }
    scratch_bytes = 0
    if _flip(product, tile, context) == "CONV_Q8_FLIP_ROWS":
        copy = _flipped_rows(product)
        params, scratch_bytes = {**params, **copy}, copy["run_down"] * runs.down
    half = Tile(half_of(places.row_pixels), tile.vectors)
    if tile.pixels > half.pixels:
        context.precompile(product.op, _kernel(product, half, form, context))
    weights, records, *ones = packed
    target = TensorRef(result, product.result_start)
    operands: tuple[Ref, ...] = (product.data, weights, records, target)
    context.call(
        product.op,
        _kernel(product, tile, form, context),
        params,
        (*operands, ones[0] if ones else NoRef(), product.scales),
        (result,),
        tasks=places.rows * row_tiles * splits,
        scratch_bytes=scratch_bytes,
    )


def _tile(product: Product, context: Context) -> Tile:
    """The best tile; for another size of the network, among those that are there for the op."""
    lanes = context.vector_bytes // 4
    row_pixels, columns = product.places.row_pixels, -(-product.channels // lanes)
    costs = costs_of(context.target)
    tiles = product_tiles(row_pixels, columns, product.group_bytes, context.target)
    reused: dict[int, Packed | None] = {}

    def is_there(tile: Tile) -> bool:
        vectors = tile.vectors
        if product.computed is not None:
            form = product.computed.scaling(tile).form
            kernels = pack_kernel(tile), _kernel(product, tile, form, context)
            return all(map(context.has, kernels))
        if vectors not in reused:
            reused[vectors] = context.reused(product.op, _packing(product, vectors))
        known = reused[vectors]
        return known is not None and context.has(_kernel(product, tile, known.fact, context))

    name = f"conv_q8 {product.places.rows}x{row_pixels}"
    choice = Choice(name, tiles, lambda t: tile_work(costs, t, row_pixels, columns), is_there)
    return context.choose(product.op, choice)


def _packed(
    product: Product, tile: Tile, context: Context
) -> tuple[tuple[ConstantRef | TensorRef, ...], str]:
    """Weights, records and perhaps weights of one; and the form of scaling."""
    if product.computed is None:
        name = _packing(product, tile.vectors)
        packed = context.packed(product.op, name, lambda: _pack_product(product, tile, context))
        return packed.refs, packed.fact
    runs = product.runs
    taps = runs.down * runs.across
    refs = call_pack(product.computed, context, (product.channels, taps, runs.bytes), tile)
    ones: tuple[ConstantRef, ...] = ()
    if _sums(product, tile.vectors * context.vector_bytes // 4) == _SUMS_SPLAT:
        name = f"ones {taps} {runs.bytes}"
        ones = context.packed(product.op, name, lambda: ([_ones(product, context)], None)).refs
    return (*refs, *ones), product.computed.scaling(tile).form


def _ones(product: Product, context: Context) -> Int8:
    """Packed weights of one, of as many channels as a register has lanes."""
    runs, lanes = product.runs, context.vector_bytes // 4
    windows = np.ones((lanes, runs.down, runs.across, runs.bytes), np.int8)
    return pack(windows, np.arange(lanes), group_of(product.group_bytes, context.target))


def _kernel(product: Product, tile: Tile, form: str, context: Context) -> Kernel:
    lanes = context.vector_bytes // 4
    short = product.runs.bytes if product.runs.bytes < 4 else 0
    columns = tile.vectors * lanes
    tail = int(product.channels % columns != 0)
    scales = form, _flip(product, tile, context), short, _sums(product, columns), tail
    return Kernel("conv_q8.h", "conv_q8", (tile.pixels, tile.vectors, *scales))


def _packing(product: Product, vectors: int) -> str:
    """A name for the packed constants."""
    runs = product.runs
    return f"conv_q8{product.part} {vectors} {runs.down} {runs.across} {runs.bytes}"


def _pack_product(product: Product, tile: Tile, context: Context) -> tuple[list[np.ndarray], str]:
    """Weights, records and perhaps weights of one; and the form of scaling."""
    lanes, group = context.vector_bytes // 4, group_of(product.runs.bytes, context.target)
    runs, weights = product.runs, product.weights()
    scaling = product.scaling(weights, tile)
    shape = runs.down, runs.across, runs.bytes
    order = _order(tile, lanes, scaling.form)
    sums, windows = _sums(product, order.size), weights.reshape(-1, *shape)
    if sums == _SUMS_IN:
        windows = _with_ones(windows, order.size)
    arrays: list[np.ndarray] = [pack(windows, order, group), scaling.records]
    if sums == _SUMS_SPLAT:
        arrays.append(_ones(product, context))
    return arrays, scaling.form


def _flip(product: Product, tile: Tile, context: Context) -> str:
    """Rows that several windows read are flipped once, if few products would share a flip."""
    if not product.flip:
        return dots_of(operand(product.op, 0), product.group_bytes, context.target)
    once = product.runs.down > 1 and tile.vectors <= _FEW_VECTORS
    return "CONV_Q8_FLIP_ROWS" if once else "CONV_Q8_FLIP_LOADS"


def _flipped_rows(product: Product) -> dict[str, int]:
    """Parameters of the flipped copy of the rows that one row of outputs reads."""
    runs, places = product.runs, product.places
    window = (runs.across - 1) * runs.step_across + runs.bytes
    row_bytes = (places.row_pixels - 1) * places.in_strides[2] + window
    apart = -(-row_bytes // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
    return {"flip_bytes": row_bytes, "flip_down": runs.step_down, "run_down": apart}


def slots_of(channels: int, tile: Tile, lanes: int) -> Slots:
    """Channels in order, rounded up to whole tiles."""
    block = tile.vectors * lanes
    return Slots(np.arange(channels), -(-channels // block) * block, lanes)


def woven_slots(channels: int, tile: Tile, lanes: int) -> Slots:
    """Channels as the blocks of `q8_store_tile` hold them."""
    order = woven_order(tile.vectors, lanes)
    firsts = np.arange(0, channels, order.size)
    return Slots((firsts[:, None] + order).reshape(-1), firsts.size * order.size, lanes)


def _sums(product: Product, columns: int) -> str:
    """How the kernel finds sums of windows: in the last lane, where that has no channel."""
    if product.weight_zero == 0:
        return _NO_SUMS
    if product.channels < columns and product.computed is None:
        return _SUMS_IN
    return "CONV_Q8_SUMS_ALONG" if product.runs.bytes >= _SUM_BYTES else _SUMS_SPLAT


def _with_ones(weights: Int8, channels: int) -> Int8:
    """Weights of one block of channels, the last of them all ones."""
    block = np.zeros((channels, *weights.shape[1:]), np.int8)
    block[: len(weights)] = weights
    block[-1] = 1
    return block


def refuses_conv(op: Op, target: Target) -> str | None:
    """Why the kernel does not take a convolution, or None."""
    reason = refuses_weighted(op, target)
    if reason is None and operand(op, 1).static_shape[3] != operand(op, 0).static_shape[3]:
        return "does not take groups of channels"
    return reason


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_conv(op, target)


def _lower(op: Op, context: Context) -> None:
    lower_integer_conv(op, context, lambda: signed_weights(op), operand(op, 1).static_shape[0])


def lower_integer_conv(
    op: Op, context: Context, weights: Callable[[], Int8], channels: int
) -> None:
    """Lower an op as a convolution with the given weights [channels, h, w, depth]."""
    offset = product_offset(operand(op, 0), context.target)
    call_product(integer_conv(op, context, weights, channels, offset), context)


def integer_conv(
    op: Op, context: Context, weights: Callable[[], Int8], channels: int, offset: int
) -> Product:
    """A convolution with weights [channels, h, w, depth]; `offset` is added to activations."""
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    lanes, zero = context.vector_bytes // 4, weights_zero(op)

    def scaling(values: Int8, tile: Tile) -> Scaling:
        folded = fold_zero_points(op, values, zero, offset)
        return integer_scaling(op, folded, woven_slots(channels, tile, lanes), context.target)

    return Product(
        op,
        runs_of(op, data),
        places_of(op, data, out),
        channels,
        weights,
        scaling,
        zero,
        offset != 0,
        TensorRef(operand(op, 0), start_of(op, data)),
        output_bounds(op),
    )


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_q8",
        _refuses,
        _lower,
        conv_border,
        strided_inputs=True,
        strided_output=True,
    )
)
