"""CONV_2D over 8-bit activations and weights, and the calls of `conv_q8.h`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.computed_q8 import call_pack, pack_kernel
from circlet.backends.cpu.lower.integers.flips import (
    ROW_ALIGNMENT,
    copied,
    flip_of,
    grouped_bytes,
)
from circlet.backends.cpu.lower.integers.gathered import gathers, runs_of
from circlet.backends.cpu.lower.integers.groups_q8 import Groups, whole_blocks
from circlet.backends.cpu.lower.integers.i8mm import (
    group_of,
    product_offset,
    product_tiles,
)
from circlet.backends.cpu.lower.integers.image_q8 import call_image, is_image
from circlet.backends.cpu.lower.integers.narrow_groups_q8 import call_narrow_groups, narrow_groups
from circlet.backends.cpu.lower.integers.pairs_forms import PairedForm, is_paired, sparse_scratch
from circlet.backends.cpu.lower.integers.pairs_q8 import SPARSE, WIDE, Windows
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    fold_zero_points,
    output_bounds,
    refuses_weighted,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import (
    HYBRIDS,
    ChannelOrder,
    Requantisation,
    interleaved,
    interleaved_lanes,
)
from circlet.backends.cpu.lower.integers.tiles import row_cycles
from circlet.backends.cpu.lower.products.product import Im2colRow, Product, Weights
from circlet.backends.cpu.lower.products.tiles import Tile, TileUse, chosen_tile, half_row
from circlet.backends.cpu.lower.products.windows import conv_border, convolution, splits_of
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.target.targets import Target

_SUM_BYTES = 16
_NO_SUMS = "CONV_Q8_NO_SUMS"
_SUMS_IN = "CONV_Q8_SUMS_IN"
_SUMS_SPLAT = "CONV_Q8_SUMS_SPLAT"
_UNKNOWN = np.empty(0, np.int8)


Bytes = TypeVar("Bytes", np.int8, np.int16)
Fact = tuple[str, str]  # the form of requantisation, and how products are made


class Q8Epilogue(NamedTuple):
    """What happens to the sums of an 8-bit or hybrid product.

    Attributes:
        requantise: Parameters, given the weights and the channels of a block. Weights that are
            computed are not given: sums then start at zero.
        weight_zero: What remains to be taken off each weight.
        flip: Whether activations change their top bit on their way into sums.
        bounds: The kernel's parameters of what results are bounded by.
        scales: Where the scales of quantised float images stand.
    """

    requantise: Callable[[Int8, int], Requantisation]
    weight_zero: int
    flip: bool
    bounds: dict[str, ParamValue]
    scales: Ref = NoRef()


Q8Product = Product[Q8Epilogue]


def product_params(product: Q8Product) -> dict[str, ParamValue]:
    """The parameters of `conv_q8.h` and of `amx_conv_q8.h` that do not depend on tiles."""
    return {
        **product.params(),
        "run_bytes": product.im2col.joined().length,
        "channels": product.group_filters,
        "weight_zero": product.epilogue.weight_zero,
        **product.epilogue.bounds,
    }


def pack(
    weights: npt.NDArray[Bytes], order: npt.NDArray[np.intp], group: int = 4
) -> npt.NDArray[Bytes]:
    """[channels, down, across, bytes] to [blocks, groups of bytes, columns, bytes of a group].

        step 0:  c0: t0 t1 t2 t3 | c1: t0 t1 t2 t3 | ...    step 1:  c0: t4 t5 t6 t7 | ...

    One vector load thus brings what a four-way dot product (VPDPBUSD, SDOT) takes: four taps of
    each lane's channel. Column c of a block holds its channel order[c]. The bytes of a run's last
    group stand at its end, unless the run is shorter than the group.
    """
    columns = order.size
    channels, down, across, length = weights.shape
    whole, groups = length // group * group, -(-length // group)
    shape = -(-channels // columns) * columns, down, across, groups * group
    runs = np.zeros(shape, weights.dtype)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if length < group:
        runs[:channels, ..., :length] = weights
    elif whole < length:
        runs[:channels, ..., whole - length :] = weights[..., whole:]
    blocks = runs.reshape(-1, columns, down * across * groups, group)
    return np.ascontiguousarray(blocks[:, order].transpose(0, 2, 1, 3))


def _order(width: int, lanes: int, form: str) -> npt.NDArray[np.intp]:
    """The channel of each column of a block: floats are stored register by register."""
    return np.arange(width) if form in HYBRIDS else interleaved_lanes(width // lanes, lanes)


def call_conv_q8(product: Q8Product, context: Context) -> None:
    """Append the call of the kernel for a product."""
    op, row = product.op, runs_of(product, context.target)
    lanes = context.vector_bytes // 4
    tile = _tile(product, row, context)
    width = tile.channels(lanes)
    packed, fact = _packed(product, row, tile, context)
    group_blocks = -(-product.group_filters // width)
    blocks = product.groups * group_blocks
    group, element_bytes = (2, 2) if fact[1] == WIDE else (_group(product, row, context), 1)
    block_bytes = row.runs * -(-row.length // group) * group * width * element_bytes
    row_tiles = -(-product.width // tile.pixels)
    splits = _splits(product, blocks, block_bytes, product.rows * row_tiles)
    params: dict[str, ParamValue] = {
        **product_params(product),
        **row.params(),
        "run_bytes": row.length,
        "block_bytes": block_bytes,
        "row_tiles": row_tiles,
        "group_bytes": product.shape[3],
        "group_blocks": group_blocks,
        "blocks": blocks,
        "splits": splits,
        **_stack_strides(product, blocks * block_bytes, blocks * tile.whole),
    }
    copy, elements = copied(product, row, tile, fact[1], splits, context)
    scratch_bytes = elements * element_bytes
    if fact[1] == SPARSE:
        sparse, scratch_bytes = sparse_scratch(
            scratch_bytes,
            Windows(row.rows, row.columns, row.length, lanes),
            -(-blocks // splits) * width,
        )
        params |= sparse
    half = half_row(tile, product.width)
    if tile.pixels > half.pixels:
        context.precompile(op, _kernel(product, row, half, fact, context))
    weights, parameters, *more = packed
    operands: tuple[Ref, ...] = (product.source.ref, weights, parameters, product.result.ref)
    context.call(
        op,
        _kernel(product, row, tile, fact, context),
        params | copy,
        (*operands, more[0] if more else NoRef(), product.epilogue.scales),
        (product.result.tensor,),
        tasks=product.rows * row_tiles * splits,
        scratch_bytes=scratch_bytes,
    )


def _splits(product: Q8Product, blocks: int, block_bytes: int, tiles: int) -> int:
    """Parts of the blocks; those of groups copy pieces of pixels, each a line of them or more."""
    splits = splits_of(blocks, block_bytes, tiles)
    if product.groups == 1:
        return splits
    return max(1, min(splits, product.groups * product.shape[3] // ROW_ALIGNMENT))


def _stack_strides(product: Q8Product, matrix: int, registers: int) -> dict[str, ParamValue]:
    """What lies between the packed weights, and their parameters, of one image and the next."""
    if product.computed is None or product.computed.stack.matrices == 1:
        return {"weights_batch": 0, "qparams_batch": 0}
    return {"weights_batch": matrix, "qparams_batch": registers}


def _tile(product: Q8Product, row: Im2colRow, context: Context) -> Tile:
    width, vectors = product.width, -(-product.group_filters // (context.vector_bytes // 4))
    target, weight_bytes = context.target, product.depth * product.filters
    return chosen_tile(
        product.op,
        context,
        f"conv_q8 {product.rows}x{width}",
        product_tiles(width, vectors, grouped_bytes(product, row), target, weight_bytes),
        lambda tile: row_cycles(tile, width, vectors, target, weight_bytes),
        _use(product, row, context),
    )


def _use(product: Q8Product, row: Im2colRow, context: Context) -> TileUse:
    use = TileUse(
        lambda tile: _packing(product, row, tile, context),
        lambda tile, fact: _kernel(product, row, tile, fact, context),
    )
    computed = product.computed
    if computed is None:
        return use
    lanes, requantise = context.vector_bytes // 4, product.epilogue.requantise

    def packer(tile: Tile) -> tuple[Kernel, Fact]:
        return pack_kernel(product, computed, tile.whole), (
            requantise(_UNKNOWN, tile.channels(lanes)).form,
            "",
        )

    return use._replace(packer=packer)


def _group(product: Q8Product, row: Im2colRow, context: Context) -> int:
    return group_of(grouped_bytes(product, row), context.target)


def _packed(
    product: Q8Product, row: Im2colRow, tile: Tile, context: Context
) -> tuple[tuple[ConstantRef | TensorRef, ...], Fact]:
    """Weights, requantisation parameters, perhaps weights of one or an excess; and the forms."""
    op, width = product.op, tile.channels(context.vector_bytes // 4)
    if product.computed is None:
        name = _packing(product, row, tile, context)
        packed = context.packed(op, name, lambda: _pack_product(product, row, width, context))
        return packed.refs, packed.fact
    scaling = product.epilogue.requantise(_UNKNOWN, width)
    refs = call_pack(product, row, scaling.parameters, tile.whole, context)
    ones: tuple[ConstantRef, ...] = ()
    if _sums(product, row, width, context) == _SUMS_SPLAT:
        name = f"ones {row.runs} {row.length}"
        ones = context.packed(op, name, lambda: ([_ones(product, row, context)], None)).refs
    return (*refs, *ones), (scaling.form, "")


def _ones(product: Q8Product, row: Im2colRow, context: Context) -> Int8:
    """Packed weights of one, of as many channels as a register has lanes."""
    lanes = context.vector_bytes // 4
    windows = np.ones((lanes, row.rows, row.columns, row.length), np.int8)
    return pack(windows, np.arange(lanes), _group(product, row, context))


def _kernel(product: Q8Product, row: Im2colRow, tile: Tile, fact: Fact, context: Context) -> Kernel:
    width = tile.channels(context.vector_bytes // 4)
    is_gathered = gathers(product, context.target)
    taps = product.im2col.joined() if is_gathered else row
    length = taps.length if is_gathered or row.length < 4 else 0
    tail = int(product.group_filters % width != 0)
    form, products = fact
    ways = {
        flip_of(product, row, tile, products, context): True,
        products: products != "",
        "CONV_Q8_KEEP_TOPS": products == WIDE and not product.epilogue.flip,
        "CONV_Q8_ONE_RUN": row.runs == 1,
        "CONV_Q8_GATHER": is_gathered,
        "CONV_Q8_GROUPS": product.groups > 1,
    }
    how = " | ".join(way for way, applies in ways.items() if applies)
    sums = _sums(product, row, width, context)
    arguments = (tile.pixels, tile.whole, form, how, length, sums, tail)
    return Kernel("conv_q8.h", "conv_q8", arguments)


def _packing(product: Q8Product, row: Im2colRow, tile: Tile, context: Context) -> str:
    """A name for the packed constants; an excess of gathered windows takes other forms."""
    shape = f"{tile.whole} {row.rows} {row.columns} {row.length}"
    gathered = " gathered" if gathers(product, context.target) else ""
    return f"conv_q8{product.part} {shape} {_group(product, row, context)}{gathered}"


def _pack_product(
    product: Q8Product, row: Im2colRow, width: int, context: Context
) -> tuple[list[np.ndarray], Fact]:
    """Weights, requantisation parameters, perhaps weights of one or an excess; and the forms."""
    lanes = context.vector_bytes // 4
    group, weights = _group(product, row, context), product.weights()
    scaling = product.epilogue.requantise(weights, width)
    shape = row.rows, row.columns, row.length
    order = _order(width, lanes, scaling.form)
    sums = _sums(product, row, width, context)
    windows, zero = weights.reshape(-1, *shape), np.int16(product.epilogue.weight_zero)
    if is_paired(product, context.target):
        centred: npt.NDArray[np.int16] = windows.astype(np.int16) - zero
        exact = whole_blocks(centred, product.groups, width)
        paired = PairedForm(product, row, lanes, context.target)
        how, (kept, *excess) = paired.least_time(lambda group: pack(exact, order, group))
        return [kept, scaling.parameters, *excess], (scaling.form, how)
    blocks = whole_blocks(windows, product.groups, width)
    if sums == _SUMS_IN:
        blocks[width - 1 :: width] = 1
    arrays: list[np.ndarray] = [pack(blocks, order, group), scaling.parameters]
    if sums == _SUMS_SPLAT:
        arrays.append(_ones(product, row, context))
    return arrays, (scaling.form, "")


def _sums(product: Q8Product, row: Im2colRow, width: int, context: Context) -> str:
    """How the kernel finds sums of windows: in the last lane, where that has no channel."""
    if product.epilogue.weight_zero == 0 or is_paired(product, context.target):
        return _NO_SUMS
    if product.group_filters < width and product.computed is None:
        return _SUMS_IN
    long = row.length >= _SUM_BYTES
    return "CONV_Q8_SUMS_ALONG" if long else _SUMS_SPLAT


def refuses_conv(op: Op, target: Target) -> str | None:
    """Why a kernel that has no groups does not take a convolution, or None."""
    reason = refuses_weighted(op, target)
    if reason is None and operand(op, 1).static_shape[3] != operand(op, 0).static_shape[3]:
        return "does not take groups of channels"
    return reason


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_weighted(op, target)


def _lower(op: Op, context: Context) -> None:
    lower_integer_conv(op, context, lambda: signed_weights(op))


def lower_integer_conv(
    op: Op, context: Context, weights: Weights, filters: int | None = None
) -> None:
    """Lower an op as a convolution with weights of `filters`, or of as many as it has."""
    offset = product_offset(operand(op, 0), context.target)
    narrow = groups = None
    if filters is None:
        narrow = narrow_groups(op, context)
        groups = narrow or Groups.of(op, context.vector_bytes // 4)
    product = integer_conv(op, context, weights, offset, filters, groups)
    if narrow is None and not is_image(product, context):
        call_conv_q8(product, context)
        return

    def requantise(values: Int8, order: ChannelOrder) -> Requantisation:
        folded = fold_zero_points(op, values, product.epilogue.weight_zero, offset)
        return integer_requantisation(op, folded, order, context.target)

    call = call_image if narrow is None else call_narrow_groups
    call(product, requantise, context)


def integer_conv(
    op: Op,
    context: Context,
    weights: Weights,
    offset: int,
    filters: int | None = None,
    groups: Groups | None = None,
) -> Q8Product:
    """A convolution with weights [filters, h, w, depth]; `offset` is added to activations.

    They are over all channels where there are no `groups`.
    """
    window, lanes, zero = window_of(op), context.vector_bytes // 4, weights_zero(op)
    count = operand(op, 1).static_shape[0] if filters is None else filters
    held = groups or Groups(1, 1, operand(op, 0).static_shape[3])

    def requantise(values: Int8, width: int) -> Requantisation:
        folded = fold_zero_points(op, values, zero, offset)
        order = interleaved(count, width, lanes, held.total)
        return integer_requantisation(op, folded, order, context.target)

    epilogue = Q8Epilogue(requantise, zero, offset != 0, output_bounds(op))
    shape = count, window.rows.size, window.columns.size, held.channels
    joined = shape, lambda: held.joined(weights(), zero)
    return convolution(op, context, joined, epilogue)._replace(groups=held.total)


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "conv_q8",
        _refuses,
        _lower,
        conv_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.INT8,
    )
)
