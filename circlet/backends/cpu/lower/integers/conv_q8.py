"""CONV_2D over 8-bit activations and weights, and the calls of `conv_q8.h`."""

from __future__ import annotations

from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.computed_q8 import pack_kernel
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product, product_params
from circlet.backends.cpu.lower.integers.flips import (
    ROW_ALIGNMENT,
    copied,
    flip_of,
    grouped_bytes,
)
from circlet.backends.cpu.lower.integers.gathered import gathers, runs_of
from circlet.backends.cpu.lower.integers.groups_q8 import Groups
from circlet.backends.cpu.lower.integers.i8mm import (
    product_offset,
    product_tiles,
)
from circlet.backends.cpu.lower.integers.image_q8 import call_image, is_image
from circlet.backends.cpu.lower.integers.narrow_groups_q8 import call_narrow_groups, narrow_groups
from circlet.backends.cpu.lower.integers.packing import Fact, Packing
from circlet.backends.cpu.lower.integers.pairs_forms import sparse_scratch
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
    ChannelOrder,
    Requantisation,
    interleaved,
)
from circlet.backends.cpu.lower.integers.tiles import row_cycles
from circlet.backends.cpu.lower.products.product import Weights
from circlet.backends.cpu.lower.products.tiles import Tile, TileUse, chosen_tile, half_row
from circlet.backends.cpu.lower.products.windows import conv_border, convolution, splits_of
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
)
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.target.targets import Target


def call_conv_q8(product: Q8Product, context: Context) -> None:
    """Append the call of the kernel for a product."""
    op, row = product.op, runs_of(product, context.target)
    packing = Packing(product, row, context)
    tile = _tile(packing)
    width = tile.channels(packing.lanes)
    (weights, parameters, *more), fact = packing.packed(tile)
    group_blocks = -(-product.group_filters // width)
    blocks = product.groups * group_blocks
    group, element_bytes = (2, 2) if fact.products == WIDE else (packing.group, 1)
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
    copy, elements = copied(product, row, tile, fact.products, splits, context)
    scratch_bytes = elements * element_bytes
    if fact.products == SPARSE:
        sparse, scratch_bytes = sparse_scratch(
            scratch_bytes,
            Windows(row.rows, row.columns, row.length, packing.lanes),
            -(-blocks // splits) * width,
        )
        params |= sparse
    half = half_row(tile, product.width)
    if tile.pixels > half.pixels:
        context.precompile(op, _kernel(packing, half, fact))
    operands: tuple[Ref, ...] = (product.source.ref, weights, parameters, product.result.ref)
    context.call(
        op,
        _kernel(packing, tile, fact),
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


def _tile(packing: Packing) -> Tile:
    product, target = packing.product, packing.context.target
    width, vectors = product.width, -(-product.group_filters // packing.lanes)
    weight_bytes = product.depth * product.filters
    return chosen_tile(
        product.op,
        packing.context,
        f"conv_q8 {product.rows}x{width}",
        product_tiles(width, vectors, grouped_bytes(product, packing.row), target, weight_bytes),
        lambda tile: row_cycles(tile, width, vectors, target, weight_bytes),
        _use(packing),
    )


def _use(packing: Packing) -> TileUse:
    use = TileUse(packing.name, lambda tile, fact: _kernel(packing, tile, Fact(*fact)))
    product, computed = packing.product, packing.product.computed
    if computed is None:
        return use

    def packer(tile: Tile) -> tuple[Kernel, Fact]:
        return pack_kernel(product, computed, tile.whole), packing.computed_fact(tile)

    return use._replace(packer=packer)


def _kernel(packing: Packing, tile: Tile, fact: Fact) -> Kernel:
    product, row, context = packing.product, packing.row, packing.context
    is_gathered = gathers(product, context.target)
    taps = product.im2col.joined() if is_gathered else row
    length = taps.length if is_gathered or row.length < 4 else 0
    tail = int(product.group_filters % tile.channels(packing.lanes) != 0)
    ways = {
        flip_of(product, row, tile, fact.products, context): True,
        fact.products: fact.products != "",
        "CONV_Q8_KEEP_TOPS": fact.products == WIDE and not product.epilogue.flip,
        "CONV_Q8_ONE_RUN": row.runs == 1,
        "CONV_Q8_GATHER": is_gathered,
        "CONV_Q8_GROUPS": product.groups > 1,
    }
    how = " | ".join(way for way, applies in ways.items() if applies)
    arguments = (tile.pixels, tile.whole, fact.form, how, length, packing.sums(tile), tail)
    return Kernel("conv_q8.h", "conv_q8", arguments)


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
