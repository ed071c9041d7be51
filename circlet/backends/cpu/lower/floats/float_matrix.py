"""Calls of `conv_f32.h`: what convolutions, fully connected and transposed ones have in common."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from circlet.backends.cpu.lower.floats.amx_bf16 import call_tiles, takes_tiles
from circlet.backends.cpu.lower.floats.bf16 import call_cast, pairs, registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.computed_weights import (
    Panels,
    call_pack,
    pack_kernel,
    unknown,
)
from circlet.backends.cpu.lower.floats.matrix import FloatArray, Matrix, View
from circlet.backends.cpu.lower.floats.tiles import (
    Tile,
    lanes_of,
    registers_of,
    task_tiles,
    tile_slots,
    tiles_of,
    vectors_of,
)
from circlet.backends.cpu.lowering import Context, Kernel, NoRef, ParamValue, Ref
from circlet.backends.cpu.tuning.choices import Choice, joined
from circlet.ir import DType, Op, Tensor

CLAMPS = {"NONE": (-inf, inf), "RELU": (0.0, inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}


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
    activation = getattr(op.attrs, "fused_activation_function", "NONE")
    return None if activation in CLAMPS else f"fused activation {activation}"


def constant_floats(tensor: Tensor | None) -> FloatArray | None:
    """The elements of a constant, or None where it is omitted or computed."""
    return None if tensor is None or tensor.data is None else np.asarray(tensor.data, np.float32)


def float_weights(tensor: Tensor) -> FloatArray:
    """The elements of a constant; `unknown` ones where it is computed."""
    constant = constant_floats(tensor)
    return unknown(tensor.static_shape) if constant is None else constant


def call_matrix(op: Op, context: Context, matrix: Matrix) -> None:
    """Append the kernel calls that compute `matrix`."""
    if matrix.computed is None and rounds(context, matrix.multiply_adds, reach(matrix)):
        matrix, window = _rounded(op, context, matrix), _window(matrix)
        if takes_tiles(matrix, window, context.target):
            results = {**edges(matrix), **clamp_params(matrix.activation)}
            call_tiles(op, context, matrix, window, results)
            return
    tile = _tile(op, context, matrix)
    block = tile.channels(lanes_of(context.vector_bytes))
    dealt, tasks = _dealt(matrix, tile, block)
    params = {**dealt, **_window(matrix), **edges(matrix), **clamp_params(matrix.activation)}
    if matrix.rounded:
        params = {f"conv_{name}": value for name, value in params.items()}
    weights = _packed(op, context, matrix, tile)
    half = Tile(-(-matrix.sizes[2] // 2), tile.vectors)
    if tile.pixels > half.pixels:
        context.precompile(op, _kernel(half, matrix))
    addend: Ref = NoRef() if matrix.addend is None else matrix.addend.ref
    context.call(
        op,
        _kernel(tile, matrix),
        params,
        (matrix.source.ref, weights, matrix.result.ref, addend),
        [matrix.result.tensor],
        tasks=tasks,
    )


def _packed(op: Op, context: Context, matrix: Matrix, tile: Tile) -> Ref:
    """The packed weights; a call packs those that are computed."""
    block = tile.channels(lanes_of(context.vector_bytes))
    if matrix.computed is not None:
        panels = Panels(block, matrix.groups)
        return call_pack(op, context, matrix.computed, matrix.weights.shape, panels)
    name = _packing(matrix, tile)
    return context.packed(op, name, lambda: ([pack_weights(matrix, block)], None)).refs[0]


def _dealt(matrix: Matrix, tile: Tile, block: int) -> tuple[dict[str, ParamValue], int]:
    """The kernel's parameters of tiles and blocks, of `block` filters each; how many tasks."""
    images, height, width = matrix.sizes
    filters = matrix.weights.shape[0] // matrix.groups
    group_blocks, row_tiles = -(-filters // block), -(-width // tile.pixels)
    tiles, blocks = images * height * row_tiles, matrix.groups * group_blocks
    per_task = task_tiles(tile, tiles, blocks, matrix.depth)
    params: dict[str, ParamValue] = {
        "width": width,
        "height": height,
        "row_tiles": row_tiles,
        "tiles": tiles,
        "task_tiles": per_task,
        "blocks": blocks,
        "group_blocks": group_blocks,
        "group_channels": filters,
    }
    return params, -(-tiles // max(1, per_task)) * blocks


def reach(matrix: Matrix) -> int:
    """Input elements from the first that is read to the last."""
    view, window, (images, height, width) = matrix.source, _window(matrix), matrix.sizes
    pixels = (images - 1) * view.batch + (height - 1) * view.row + (width - 1) * view.pixel
    taps = (window["tap_rows"] - 1) * matrix.taps[0] + (window["tap_runs"] - 1) * matrix.taps[1]
    return pixels + taps + window["run"] + (matrix.groups - 1) * window["group_inputs"]


def _rounded(op: Op, context: Context, matrix: Matrix) -> Matrix:
    """The matrix over its source in bfloat16, each element where it was among the others."""
    source = call_cast(op, context, matrix.source.ref, reach(matrix))
    return replace(
        matrix, source=replace(matrix.source, tensor=source.tensor, offset=0), rounded=True
    )


def _tile(op: Op, context: Context, matrix: Matrix) -> Tile:
    """The best tile; for another size of the network, among those that are there for the op."""
    filters = matrix.weights.shape[0] // matrix.groups
    registers = registers_of(context.target, context.vector_bytes)
    if matrix.rounded:
        registers = registers_for_pairs(registers)
    vectors = vectors_of(registers, filters, lanes_of(context.vector_bytes))
    width, depth = matrix.sizes[2], matrix.depth
    tiles = tiles_of(registers, width, vectors, depth)

    def is_there(tile: Tile) -> bool:
        known = context.has(_kernel(tile, matrix))
        if matrix.computed is not None:
            return known and context.has(pack_kernel(tile.channels(lanes_of(context.vector_bytes))))
        return known and context.reused(op, _packing(matrix, tile)) is not None

    name = f"{_function(matrix)} {joined(matrix.sizes)} by {joined(matrix.weights.shape)}"

    def cost(tile: Tile) -> float:
        return tile_slots(registers.costs, tile, width, vectors, depth)

    return context.choose(op, Choice(name, tiles, cost, is_there))


def _packing(matrix: Matrix, tile: Tile) -> str:
    """A name for the packed weights."""
    name = (
        f"{_function(matrix)} {tile.vectors} {matrix.groups} {matrix.weights.shape} {matrix.part}"
    )
    return f"{name} {_window(matrix)['run']}" if matrix.rounded else name


def pack_weights(matrix: Matrix, block: int) -> FloatArray:
    """Weights per block of `block` filters: the bias, then a row of filters per tap element.

    Where they are rounded, a row is that of two neighbours in a run, in the bits of one float.
    """
    count = matrix.weights.shape[0]
    bias = np.zeros(count, np.float32) if matrix.bias is None else matrix.bias
    weights = matrix.weights.reshape(count, -1)
    if matrix.rounded:
        runs = matrix.weights.reshape(-1, _window(matrix)["run"])
        weights = pairs(runs).view(np.float32).reshape(count, -1)
    rows = np.concatenate([bias.reshape(-1, 1), weights], axis=1)
    filters = count // matrix.groups
    grouped = rows.reshape(matrix.groups, filters, -1)
    padded = np.pad(grouped, ((0, 0), (0, -filters % block), (0, 0)))
    blocks = padded.reshape(matrix.groups, -1, block, padded.shape[2])
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 2), np.float32)


def clamp_params(activation: str) -> dict[str, ParamValue]:
    """The kernel's limits for a fused activation."""
    low, high = CLAMPS[activation]
    return {"low": low, "high": high}


def _kernel(tile: Tile, matrix: Matrix) -> Kernel:
    add = int(matrix.addend is not None)
    if matrix.rounded:
        return Kernel("conv_bf16.h", _function(matrix), (tile.pixels, tile.whole, add))
    return Kernel("conv_f32.h", _function(matrix), (tile.pixels, tile.whole, tile.half, add))


def _function(matrix: Matrix) -> str:
    return "conv_bf16" if matrix.rounded else "conv_f32"


def _window(matrix: Matrix) -> dict[str, int]:
    """Window rows as runs of contiguous input: one run where columns follow each other."""
    _, rows, columns, channels = matrix.weights.shape
    contiguous = matrix.taps[1] == channels or columns == 1
    return {
        "tap_row": matrix.taps[0],
        "tap_run": matrix.taps[1],
        "tap_rows": rows,
        "tap_runs": 1 if contiguous else columns,
        "run": columns * channels if contiguous else channels,
        "group_inputs": channels,
    }


def edges(matrix: Matrix) -> dict[str, ParamValue]:
    """The kernels' parameters for input, output and addend."""
    zero = View(matrix.result.tensor, 0, 0, 0, 0)
    return {
        **matrix.source.strides("in"),
        **matrix.result.strides("out"),
        **(matrix.addend or zero).strides("add"),
        "add_channels": matrix.add_channels,
    }
