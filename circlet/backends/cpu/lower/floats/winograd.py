"""Convolutions of 3 x 3 and stride 1 by `winograd_f32.h`, where that takes less time."""

from __future__ import annotations

from math import sqrt

import numpy as np

from circlet.backends.cpu.lower.floats.bf16 import speed_up
from circlet.backends.cpu.lower.floats.float_matrix import clamp_params, edges
from circlet.backends.cpu.lower.floats.matrix import FloatArray, Matrix
from circlet.backends.cpu.lower.floats.tiles import (
    FLOAT_BYTES,
    Registers,
    Tile,
    choose_tile,
    lanes_of,
    registers_of,
    tile_slots,
    tiles_of,
    vectors_of,
)
from circlet.backends.cpu.lowering import Context, Kernel, NoRef, ParamValue, Ref
from circlet.backends.cpu.tuning.choices import Choice, always_there, joined
from circlet.ir import Op

PLAIN, WINOGRAD = "conv_f32", "winograd_f32"
_PIXELS = 4
_PLANES = 36
_MOST_WEIGHT_BYTES = 12 << 20
_CACHED_BYTES = 384 << 10
_TASKS_WANTED = 8
_WORTHWHILE = 0.8

_NEAR, _FAR = sqrt(0.5), sqrt(2)


def _evaluation() -> np.ndarray:
    """Filters of three taps at the points 0, +-near, +-far and infinity, scaled for the sum."""
    points = (0.0, _NEAR, -_NEAR, _FAR, -_FAR)
    rows = []
    for point in points:
        scale = np.prod([point - other for other in points if other != point])
        rows.append(np.array([1, point, point**2]) / scale)
    return np.array([*rows, [0, 0, 1]])


def method_of(context: Context, matrix: Matrix) -> Choice[str]:
    """Whether `call_winograd` or `call_matrix` is to compute a matrix.

    The former's rounding errors are larger, so that it has to gain something.
    """
    lanes = lanes_of(context.vector_bytes)
    slots = {PLAIN: 0.0}
    if _takes(matrix, lanes):
        registers = registers_of(context.target, context.vector_bytes)
        slots = {
            PLAIN: _WORTHWHILE * _direct_slots(matrix, registers, lanes) / speed_up(context),
            WINOGRAD: _slots(matrix, registers, lanes),
        }
    name = f"method {joined(matrix.sizes)}"
    return Choice(name, sorted(slots, key=slots.__getitem__), slots.__getitem__, always_there)


def _takes(matrix: Matrix, lanes: int) -> bool:
    """Whether `call_winograd` can compute a matrix, with not too many weights."""
    _, height, width = matrix.sizes
    *window, channels = matrix.weights.shape[1:]
    near = matrix.source.row == matrix.taps[0] and matrix.source.pixel == matrix.taps[1]
    if matrix.groups > 1 or window != [3, 3] or not near:
        return False
    if channels < lanes or min(height, width) < _PIXELS:
        return False
    return _weight_bytes(matrix, lanes) <= _MOST_WEIGHT_BYTES


def _weight_bytes(matrix: Matrix, lanes: int) -> int:
    filters, _, _, channels = matrix.weights.shape
    return _PLANES * channels * -(-filters // lanes) * lanes * FLOAT_BYTES


def call_winograd(op: Op, context: Context, matrix: Matrix) -> None:
    """Append the kernel call that computes `matrix`."""
    lanes = lanes_of(context.vector_bytes)
    filters, _, _, channels = matrix.weights.shape
    tile = context.choose(op, _tiles(context, matrix))
    block = tile.channels(lanes)
    blocks = -(-filters // block)
    task_patches = _task_patches(matrix, tile, blocks * block)
    _, height, width = matrix.sizes
    in_plane, sum_plane = (task_patches * row + lanes for row in (channels, blocks * block))
    params: dict[str, ParamValue] = {
        **edges(matrix),
        **clamp_params(matrix.activation),
        "in_plane": in_plane,
        "sum_plane": sum_plane,
        "width": width,
        "height": height,
        "row_patches": -(-width // _PIXELS),
        "image_patches": -(-height // _PIXELS) * -(-width // _PIXELS),
        "patches": _patches(matrix),
        "task_patches": task_patches,
        "channels": channels,
        "blocks": blocks,
        "filters": filters,
    }
    packed = context.packed(op, f"winograd_f32 {block}", lambda: _pack(matrix, block))
    addend: Ref = NoRef() if matrix.addend is None else matrix.addend.ref
    arguments = (tile.pixels, tile.whole, int(matrix.addend is not None))
    context.call(
        op,
        Kernel("winograd_f32.h", "winograd_f32", arguments),
        params,
        (matrix.source.ref, *packed.refs, matrix.result.ref, addend),
        [matrix.result.tensor],
        tasks=-(-_patches(matrix) // task_patches),
        scratch_bytes=_PLANES * (in_plane + sum_plane) * FLOAT_BYTES,
    )


def _patches(matrix: Matrix) -> int:
    images, height, width = matrix.sizes
    return images * -(-height // _PIXELS) * -(-width // _PIXELS)


def _tiles(context: Context, matrix: Matrix) -> Choice[Tile]:
    registers = registers_of(context.target, context.vector_bytes)
    patches, vectors = _tiled(matrix, lanes_of(context.vector_bytes))
    name = f"{WINOGRAD} {joined(matrix.sizes)}"
    depth = matrix.weights.shape[3]

    def cost(tile: Tile) -> float:
        return tile_slots(registers.costs, tile, patches, vectors, depth)

    return Choice(name, tiles_of(registers, patches, vectors, depth), cost, always_there)


def _tiled(matrix: Matrix, lanes: int) -> tuple[int, int]:
    """Patches and vectors of filters that tiles cover."""
    patches = max(1, -(-_patches(matrix) // 2))  # two threads can share the smallest images
    return patches, -(-len(matrix.weights) // lanes)


def _task_patches(matrix: Matrix, tile: Tile, filters: int) -> int:
    """Patches whose planes stay in the second-level cache, whole tiles of them."""
    patch_bytes = _PLANES * (matrix.weights.shape[3] + filters) * FLOAT_BYTES
    shared = -(-_patches(matrix) // _TASKS_WANTED)
    count = max(1, min(_CACHED_BYTES // patch_bytes, shared))
    return max(1, count // tile.pixels) * tile.pixels


def _pack(matrix: Matrix, block: int) -> tuple[list[np.ndarray], None]:
    """Biases and weights."""
    count = len(matrix.weights)
    bias = np.zeros(-(-count // block) * block, np.float32)
    bias[:count] = 0 if matrix.bias is None else matrix.bias
    return [bias, _packed(matrix.weights, block)], None


def _packed(weights: FloatArray, block: int) -> FloatArray:
    """Weights per plane and block of filters: a row of filters per input channel."""
    at_points = _evaluation()
    planes = np.einsum("ia,fabc,jb->ijcf", at_points, weights.astype(np.float64), at_points)
    flat = planes.reshape(_PLANES, *planes.shape[2:]).astype(np.float32)
    padded = np.pad(flat, ((0, 0), (0, 0), (0, -flat.shape[2] % block)))
    blocks = padded.reshape(_PLANES, flat.shape[1], -1, block)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))


def _slots(matrix: Matrix, registers: Registers, lanes: int) -> float:
    """Estimated time."""
    filters, _, _, channels = matrix.weights.shape
    vectors, patches = -(-filters // lanes), _patches(matrix)
    costs, tile = registers.costs, choose_tile(registers, *_tiled(matrix, lanes), channels)
    products = tile_slots(costs, tile, patches, vectors, channels) * _PLANES
    transforms = patches * (costs.enter * channels / lanes + costs.leave * vectors)
    return products + transforms + costs.weights(_weight_bytes(matrix, lanes))


def _direct_slots(matrix: Matrix, registers: Registers, lanes: int) -> float:
    images, height, width = matrix.sizes
    vectors = vectors_of(registers, len(matrix.weights), lanes)
    tile = choose_tile(registers, width, vectors, matrix.depth)
    row = tile_slots(registers.costs, tile, width, vectors, matrix.depth)
    return images * height * row + registers.costs.weights(matrix.weights.size * FLOAT_BYTES)
