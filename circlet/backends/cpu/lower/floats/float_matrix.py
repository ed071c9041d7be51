"""Calls of `conv_f32.h` and, over operands rounded to bfloat16, of `conv_bf16.h`."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.floats.amx_bf16 import call_amx_bf16, takes_tiles
from circlet.backends.cpu.lower.floats.bf16 import call_cast, pairs, registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.computed_weights import (
    Panels,
    call_pack,
    pack_kernel,
    unknown,
)
from circlet.backends.cpu.lower.floats.epilogue import CLAMPS, FloatArray, FloatProduct, edges
from circlet.backends.cpu.lower.floats.tiles import (
    FLOAT_BYTES,
    dealt_tiles,
    lanes_of,
    registers_of,
    tiles_of,
    vectors_of,
)
from circlet.backends.cpu.lower.products.tiles import Tile, TileUse, chosen_tile, half_row
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, Ref
from circlet.backends.cpu.tuning.knobs import joined
from circlet.ir import DType, Op, Tensor
from circlet.ops.requantize import activation_of

_DEEP = 64  # steps of depth in which fetching what a tile ends with pays


def why_not_float(op: Op, data: int, weights: int, bias: int) -> str | None:
    """Why the float kernels do not take an op with operands at these positions."""
    source, filters, offsets = op.input(data), op.input(weights), op.input(bias)
    if source is None or filters is None:
        return "an operand is missing"
    if {source.dtype, filters.dtype, op.outputs[0].dtype} != {DType.FLOAT32}:
        return "not float32"
    if source.is_constant:
        return "constant input"
    if filters.data is None or (offsets is not None and offsets.data is None):
        return "weights and bias must be constant"
    if filters.sparsity is not None:
        return "sparse weights"
    return why_not_activation(op)


def why_not_activation(op: Op) -> str | None:
    """Why the fused activation is not one that a clamp computes."""
    activation = activation_of(op)
    return None if activation in CLAMPS else f"fused activation {activation}"


def constant_floats(tensor: Tensor | None) -> FloatArray | None:
    """The elements of a constant, or None where it is omitted or computed."""
    return None if tensor is None or tensor.data is None else np.asarray(tensor.data, np.float32)


def float_weights(tensor: Tensor) -> FloatArray:
    """The elements of a constant; `unknown` ones where it is computed."""
    constant = constant_floats(tensor)
    return unknown(tensor.static_shape) if constant is None else constant


def call_conv_f32(product: FloatProduct, context: Context) -> None:
    """Append the kernel calls that compute a product, over rounded operands where that pays."""
    constant = product.computed is None
    if constant and rounds(context, product.multiply_adds, reach(product)):
        product = _rounded(product, context)
        if takes_tiles(product, context.target):
            call_amx_bf16(product, context)
            return
    tile = _tile(product, context)
    block = tile.channels(lanes_of(context.vector_bytes))
    dealt, tasks = _dealt(product, tile, block)
    params = {**dealt, **_runs(product), **edges(product)}
    if product.rounded:
        params = {f"conv_{name}": value for name, value in params.items()}
    weights = _packed(product, tile, block, context)
    half = half_row(tile, product.width)
    if tile.pixels > half.pixels:
        context.precompile(product.op, _kernel(half, product))
    context.call(
        product.op,
        _kernel(tile, product),
        params,
        (product.source.ref, weights, product.result.ref, product.epilogue.addend_ref),
        [product.result.tensor],
        tasks=tasks,
    )


def _packed(product: FloatProduct, tile: Tile, block: int, context: Context) -> Ref:
    """The packed weights; a call packs those that are computed."""
    if product.computed is not None:
        panels = Panels(block, product.groups)
        return call_pack(product.op, context, product.computed, product.shape, panels)
    name = _packing(product, tile)
    return context.packed(product.op, name, lambda: ([pack_weights(product, block)], None)).refs[0]


def _dealt(product: FloatProduct, tile: Tile, block: int) -> tuple[dict[str, ParamValue], int]:
    """The kernel's parameters of tiles and blocks, of `block` filters each; how many tasks."""
    _, height, width = product.sizes
    filters = product.filters // product.groups
    group_blocks, row_tiles = -(-filters // block), -(-width // tile.pixels)
    tiles, blocks = product.rows * row_tiles, product.groups * group_blocks
    weight_bytes = blocks * block * product.depth * FLOAT_BYTES
    operand_bytes = reach(product) * FLOAT_BYTES, weight_bytes
    dealt = dealt_tiles(tile, tiles, blocks, product.depth, operand_bytes)
    params: dict[str, ParamValue] = {
        "width": width,
        "height": height,
        "row_tiles": row_tiles,
        "tiles": tiles,
        "task_tiles": dealt.tiles,
        "joined": dealt.joined,
        "blocks": blocks,
        "group_blocks": group_blocks,
        "group_channels": filters,
        "fetches": int(product.depth >= _DEEP and not costs.are_near(_result_bytes(product))),
    }
    return params, -(-tiles // max(1, dealt.tiles)) * blocks


def _result_bytes(product: FloatProduct) -> int:
    """Of the result, and of what is added to it."""
    pixels = product.sizes[0] * product.sizes[1] * product.sizes[2]
    return pixels * product.filters * FLOAT_BYTES * (1 + product.epilogue.adds)


def reach(product: FloatProduct) -> int:
    """Input elements from the first that is read to the last."""
    view, row, (images, height, width) = product.source, product.im2col, product.sizes
    pixels = (images - 1) * view.batch + (height - 1) * view.row + (width - 1) * view.pixel
    taps = (row.rows - 1) * row.row_step + (row.columns - 1) * row.column_step
    return pixels + taps + row.length + (product.groups - 1) * product.shape[3]


def pixel_bytes(product: FloatProduct) -> int:
    """Bytes of the input between the windows of two outputs of a row."""
    return product.source.pixel * (FLOAT_BYTES // 2 if product.rounded else FLOAT_BYTES)


def _rounded(product: FloatProduct, context: Context) -> FloatProduct:
    """The product over its source in bfloat16, each element where it was among the others."""
    cast = call_cast(product.op, context, product.source.ref, reach(product))
    return product._replace(
        source=product.source._replace(tensor=cast.tensor, offset=0), rounded=True
    )


def _tile(product: FloatProduct, context: Context) -> Tile:
    filters = product.filters // product.groups
    registers = registers_of(context.target, context.vector_bytes)
    if product.rounded:
        registers = registers_for_pairs(registers)
    vectors = vectors_of(registers, filters, lanes_of(context.vector_bytes))
    sizes = product.width, vectors, product.depth, pixel_bytes(product)

    def cost(tile: Tile) -> float:
        return registers.row_cycles(tile, *sizes)

    name = f"{_function(product)} {joined(product.sizes)} by {joined(product.shape)}"
    tiles = tiles_of(registers, *sizes)
    return chosen_tile(product.op, context, name, tiles, cost, _use(product, context))


def _use(product: FloatProduct, context: Context) -> TileUse:
    use = TileUse(lambda tile: _packing(product, tile), lambda tile, _: _kernel(tile, product))
    if product.computed is None:
        return use
    lanes = lanes_of(context.vector_bytes)
    return use._replace(packer=lambda tile: (pack_kernel(tile.channels(lanes)), None))


def _packing(product: FloatProduct, tile: Tile) -> str:
    """A name for the packed weights."""
    name = f"{_function(product)} {tile.vectors} {product.groups} {product.shape} {product.part}"
    return f"{name} {product.im2col.length}" if product.rounded else name


def pack_weights(product: FloatProduct, block: int) -> FloatArray:
    """Weights per block of `block` filters: the bias, then a row of filters per tap element.

        block 0:  bias[0 ... block-1] | tap 0: w[0 ... block-1] | tap 1: ... | block 1: ...

    The kernel streams a block from its start to its end, once for each tile of pixels. Where
    weights are rounded, a row is that of two neighbours in a run, in the bits of one float.
    """
    count, bias = product.filters, product.epilogue.bias
    weights = product.weights().reshape(count, -1)
    if product.rounded:
        runs = weights.reshape(-1, product.im2col.length)
        weights = pairs(runs).view(np.float32).reshape(count, -1)
    first = np.zeros(count, np.float32) if bias is None else bias
    rows = np.concatenate([first.reshape(-1, 1), weights], axis=1)
    grouped = rows.reshape(product.groups, count // product.groups, -1)
    padded = np.pad(grouped, ((0, 0), (0, -grouped.shape[1] % block), (0, 0)))
    blocks = padded.reshape(product.groups, -1, block, padded.shape[2])
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 2), np.float32)


def _kernel(tile: Tile, product: FloatProduct) -> Kernel:
    add = product.epilogue.adds
    if product.rounded:
        return Kernel("conv_bf16.h", _function(product), (tile.pixels, tile.whole, add))
    return Kernel("conv_f32.h", _function(product), (tile.pixels, tile.whole, tile.half, add))


def _function(product: FloatProduct) -> str:
    return "conv_bf16" if product.rounded else "conv_f32"


def _runs(product: FloatProduct) -> dict[str, ParamValue]:
    """The kernels' parameters of a row of the im2col matrix."""
    row = product.im2col
    return {
        "tap_row": row.row_step,
        "tap_run": row.column_step,
        "tap_rows": row.rows,
        "tap_runs": row.columns,
        "run": row.length,
        "group_inputs": product.shape[3],
    }
