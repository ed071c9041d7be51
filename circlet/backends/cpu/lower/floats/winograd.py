"""Convolutions of 3 x 3 and stride 1 by `winograd_f32.h`, where that takes less time."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.floats.bf16 import speed_up
from circlet.backends.cpu.lower.floats.epilogue import FloatArray, FloatProduct, edges
from circlet.backends.cpu.lower.floats.tiles import (
    FLOAT_BYTES,
    Registers,
    choose_tile,
    lanes_of,
    registers_of,
    row_cycles,
    tiles_of,
    vectors_of,
)
from circlet.backends.cpu.lower.products.product import ComputedWeights
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue, Ref
from circlet.backends.cpu.tuning.knobs import Knob, always_there, joined

PLAIN, WINOGRAD = "conv_f32", "winograd_f32"
_PIXELS = 4
_PLANES = 36
_PIECE = 32  # channels that a task packs
_MOST_WEIGHT_BYTES = 12 << 20
_CACHED_BYTES, _FAR_CACHED_BYTES = 384 << 10, 1 << 20
_TASKS_WANTED, _FAR_TASKS_WANTED = 8, 4
_WORTHWHILE = 0.8
_ENTER_CYCLES, _LEAVE_CYCLES = 190, 150  # transforms of a patch, per vector of channels

_NEAR, _FAR = sqrt(0.5), sqrt(2)


def _evaluation() -> np.ndarray:
    """Filters of three taps at the points 0, +-near, +-far and infinity, scaled for the sum."""
    points = (0.0, _NEAR, -_NEAR, _FAR, -_FAR)
    rows = []
    for point in points:
        scale = np.prod([point - other for other in points if other != point])
        rows.append(np.array([1, point, point**2]) / scale)
    return np.array([*rows, [0, 0, 1]])


def method_of(context: Context, product: FloatProduct) -> Knob[str]:
    """Whether `call_winograd` or `call_conv_f32` is to compute a product.

    The former's rounding errors are larger, so that it has to gain something.
    """
    lanes = lanes_of(context.vector_bytes)
    cycles = {PLAIN: 0.0}
    if _takes(product, lanes):
        registers = registers_of(context.target, context.vector_bytes)
        cycles = {
            PLAIN: _WORTHWHILE * _direct_cycles(product, registers, lanes) / speed_up(context),
            WINOGRAD: _cycles(product, registers, lanes),
        }
    name = f"method {joined(product.sizes)}"
    return Knob(name, sorted(cycles, key=cycles.__getitem__), cycles.__getitem__, always_there)


def _takes(product: FloatProduct, lanes: int) -> bool:
    """Whether `call_winograd` can compute a product, with not too many weights."""
    _, height, width = product.sizes
    *window, channels = product.shape[1:]
    near = product.source.row == product.taps[0] and product.source.pixel == product.taps[1]
    if product.groups > 1 or window != [3, 3] or not near:
        return False
    if channels < lanes or min(height, width) < _PIXELS:
        return False
    return _weight_bytes(product, lanes) <= _MOST_WEIGHT_BYTES


def _weight_bytes(product: FloatProduct, lanes: int) -> int:
    filters, _, _, channels = product.shape
    return _PLANES * channels * -(-filters // lanes) * lanes * FLOAT_BYTES


def call_winograd(product: FloatProduct, context: Context) -> None:
    """Append the kernel call that computes `product`."""
    lanes = lanes_of(context.vector_bytes)
    op, (filters, _, _, channels) = product.op, product.shape
    tile = context.choose(op, _tiles(context, product))
    block = tile.channels(lanes)
    blocks = -(-filters // block)
    task_patches = _task_patches(product, tile, blocks * block)
    _, height, width = product.sizes
    in_plane, sum_plane = (task_patches * row + lanes for row in (channels, blocks * block))
    params: dict[str, ParamValue] = {
        **edges(product),
        "in_plane": in_plane,
        "sum_plane": sum_plane,
        "width": width,
        "height": height,
        "row_patches": -(-width // _PIXELS),
        "image_patches": -(-height // _PIXELS) * -(-width // _PIXELS),
        "patches": _patches(product),
        "task_patches": task_patches,
        "channels": channels,
        "blocks": blocks,
        "filters": filters,
    }
    bias, weights = _weights(product, block, context)
    arguments = (tile.pixels, tile.whole, product.epilogue.adds)
    context.call(
        op,
        Kernel("winograd_f32.h", "winograd_f32", arguments),
        params,
        (product.source.ref, bias, weights, product.result.ref, product.epilogue.addend_ref),
        [product.result.tensor],
        tasks=-(-_patches(product) // task_patches),
        scratch_bytes=_PLANES * (in_plane + sum_plane) * FLOAT_BYTES,
    )


def _patches(product: FloatProduct) -> int:
    images, height, width = product.sizes
    return images * -(-height // _PIXELS) * -(-width // _PIXELS)


def _tiles(context: Context, product: FloatProduct) -> Knob[Tile]:
    registers = registers_of(context.target, context.vector_bytes)
    patches, vectors = _tiled(product, lanes_of(context.vector_bytes))
    name = f"{WINOGRAD} {joined(product.sizes)}"
    depth = product.shape[3]

    def cost(tile: Tile) -> float:
        return row_cycles(tile, patches, vectors, depth)

    return Knob(name, tiles_of(registers, patches, vectors, depth), cost, always_there)


def _tiled(product: FloatProduct, lanes: int) -> tuple[int, int]:
    """Patches and vectors of filters that tiles cover."""
    patches = max(1, -(-_patches(product) // 2))  # two threads can share the smallest images
    return patches, -(-product.filters // lanes)


def _task_patches(product: FloatProduct, tile: Tile, filters: int) -> int:
    """Patches whose planes stay in the second-level cache, whole tiles of them.

    Weights from beyond that cache are read once for a task: then fewer tasks are worth more room.
    """
    patch_bytes = _PLANES * (product.shape[3] + filters) * FLOAT_BYTES
    is_near = costs.are_near(_PLANES * product.shape[3] * filters * FLOAT_BYTES)
    shared = -(-_patches(product) // (_TASKS_WANTED if is_near else _FAR_TASKS_WANTED))
    room = _CACHED_BYTES if is_near else _FAR_CACHED_BYTES
    count = max(1, min(room // patch_bytes, shared))
    return max(1, count // tile.pixels) * tile.pixels


def _weights(product: FloatProduct, block: int, context: Context) -> tuple[Ref, Ref]:
    """The packed biases and weights; a call packs those that are computed."""
    if product.computed is not None:
        return _call_pack(product, product.computed, block, context)
    op, name = product.op, f"{WINOGRAD} {block}"
    bias, weights = context.packed(op, name, lambda: _pack(product, block)).refs
    return bias, weights


def _call_pack(
    product: FloatProduct, computed: ComputedWeights, block: int, context: Context
) -> tuple[Ref, Ref]:
    """Append the call that packs biases and weights, and tell where they are then."""
    filters, _, _, channels = product.shape
    blocks = -(-filters // block)
    size_bytes = blocks * block * (1 + _PLANES * channels) * FLOAT_BYTES
    packed = context.temporary(product.op, size_bytes)
    params: dict[str, ParamValue] = {
        "filter": computed.filter,
        "tap_row": computed.taps[0],
        "tap_column": computed.taps[1],
        "channel": computed.channel,
        "channels": channels,
        "piece": _PIECE,
        "blocks": blocks,
        "filters": filters,
        "points": _evaluation().reshape(-1),
    }
    context.call(
        product.op,
        Kernel("pack_winograd_f32.h", "pack_winograd_f32", (block,)),
        params,
        (computed.weights, computed.bias, packed),
        [packed.tensor],
        tasks=blocks * -(-channels // _PIECE),
    )
    return packed, packed._replace(offset=blocks * block * FLOAT_BYTES)


def _pack(product: FloatProduct, block: int) -> tuple[list[np.ndarray], None]:
    """Biases and weights."""
    bias = product.epilogue.padded_bias(product.filters, block)
    return [bias, _packed(product.weights(), block)], None


def _packed(weights: FloatArray, block: int) -> FloatArray:
    """Weights per plane and block of filters: a row of filters per input channel."""
    at_points = _evaluation()
    planes = np.einsum("ia,fabc,jb->ijcf", at_points, weights.astype(np.float64), at_points)
    flat = planes.reshape(_PLANES, *planes.shape[2:]).astype(np.float32)
    padded = np.pad(flat, ((0, 0), (0, 0), (0, -flat.shape[2] % block)))
    blocks = padded.reshape(_PLANES, flat.shape[1], -1, block)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))


def _cycles(product: FloatProduct, registers: Registers, lanes: int) -> float:
    """Predicted time."""
    filters, _, _, channels = product.shape
    vectors, patches = -(-filters // lanes), _patches(product)
    tile = choose_tile(registers, *_tiled(product, lanes), channels)
    products = row_cycles(tile, patches, vectors, channels) * _PLANES
    transforms = patches * (_ENTER_CYCLES * channels / lanes + _LEAVE_CYCLES * vectors)
    size = _weight_bytes(product, lanes)
    padded = tile.covering(1, vectors) * tile.channels(lanes)
    tasks = 1 if costs.are_near(size) else -(-patches // _task_patches(product, tile, padded))
    return products + transforms + tasks * costs.weights(size)


def _direct_cycles(product: FloatProduct, registers: Registers, lanes: int) -> float:
    images, height, width = product.sizes
    vectors = vectors_of(registers, product.filters, lanes)
    tile = choose_tile(registers, width, vectors, product.depth)
    row = row_cycles(tile, width, vectors, product.depth)
    return images * height * row + costs.weights(prod(product.shape) * FLOAT_BYTES)
