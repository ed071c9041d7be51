"""Convolutions of 3 x 3 and stride 1 by `winograd_f32.h`, where that takes less time."""

from __future__ import annotations

from itertools import pairwise
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.floats.bf16 import speed_up
from circlet.backends.cpu.lower.floats.epilogue import FloatArray, FloatProduct, edges
from circlet.backends.cpu.lower.floats.float_matrix import pixel_bytes
from circlet.backends.cpu.lower.floats.tiles import (
    FLOAT_BYTES,
    Registers,
    choose_tile,
    lanes_of,
    registers_of,
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


class _Tasks(NamedTuple):
    """How patches and blocks of filters are dealt to tasks.

    Attributes:
        patches: Of a task, whole tiles of them.
        splits: Parts of the blocks.
        groups: Parts of the patches, each of which reads all weights.
    """

    patches: int
    splits: int
    groups: int


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
        group = _one_group(product)
        cycles = {
            PLAIN: _WORTHWHILE * _direct_cycles(group, registers, lanes) / speed_up(context),
            WINOGRAD: _cycles(group, registers, lanes, product.groups),
        }
    name = f"method {joined(product.sizes)}"
    return Knob(name, sorted(cycles, key=cycles.__getitem__), cycles.__getitem__, always_there)


def _takes(product: FloatProduct, lanes: int) -> bool:
    """Whether `call_winograd` can compute a product, with not too many weights."""
    _, height, width = product.sizes
    *window, channels = product.shape[1:]
    near = product.source.row == product.taps[0] and product.source.pixel == product.taps[1]
    if window != [3, 3] or not near or (product.groups > 1 and product.computed is not None):
        return False
    if channels < lanes or min(height, width) < _PIXELS:
        return False
    return _weight_bytes(product, lanes) <= _MOST_WEIGHT_BYTES


def _weight_bytes(product: FloatProduct, lanes: int) -> int:
    filters, _, _, channels = product.shape
    vectors = product.groups * -(-filters // product.groups // lanes)
    return _PLANES * channels * vectors * lanes * FLOAT_BYTES


def _one_group(product: FloatProduct) -> FloatProduct:
    """A product of the sizes of one group."""
    filters = product.filters // product.groups
    return product._replace(shape=(filters, *product.shape[1:]), groups=1)


def call_winograd(product: FloatProduct, context: Context) -> None:
    """Append the kernel call that computes `product`."""
    lanes = lanes_of(context.vector_bytes)
    op, (filters, _, _, channels) = product.op, product.shape
    group, groups = _one_group(product), product.groups
    tile = context.choose(op, _tiles(context, group, groups))
    block = tile.channels(lanes)
    blocks = groups * -(-group.filters // block)
    dealt = _dealt(group, tile, block, groups)
    _, height, width = product.sizes
    rows = channels, -(-blocks // dealt.splits) * block
    in_plane, sum_plane = (dealt.patches * row + lanes for row in rows)
    params: dict[str, ParamValue] = {
        **edges(product),
        "in_plane": in_plane,
        "sum_plane": sum_plane,
        "width": width,
        "height": height,
        "row_patches": -(-width // _PIXELS),
        "image_patches": -(-height // _PIXELS) * -(-width // _PIXELS),
        "patches": _patches(product),
        "task_patches": dealt.patches,
        "channels": channels,
        "blocks": blocks,
        "splits": dealt.splits,
        "split_channels": channels if groups > 1 else 0,
        "split_filters": group.filters if groups > 1 else 0,
        "filters": filters,
    }
    bias, weights = _weights(product, block, dealt.splits, context)
    arguments = (tile.pixels, tile.whole, product.epilogue.adds)
    context.call(
        op,
        Kernel("winograd_f32.h", "winograd_f32", arguments),
        params,
        (product.source.ref, bias, weights, product.result.ref, product.epilogue.addend_ref),
        [product.result.tensor],
        tasks=dealt.groups * dealt.splits,
        scratch_bytes=_PLANES * (in_plane + sum_plane) * FLOAT_BYTES,
    )


def _patches(product: FloatProduct) -> int:
    images, height, width = product.sizes
    return images * -(-height // _PIXELS) * -(-width // _PIXELS)


def _tiles(context: Context, product: FloatProduct, parts: int) -> Knob[Tile]:
    registers = registers_of(context.target, context.vector_bytes)
    patches, vectors = _tiled(product, lanes_of(context.vector_bytes), parts)
    name = f"{WINOGRAD} {joined(product.sizes)}"
    depth = product.shape[3]

    def cost(tile: Tile) -> float:
        return registers.row_cycles(tile, patches, vectors, depth)

    return Knob(name, tiles_of(registers, patches, vectors, depth), cost, always_there)


def _tiled(product: FloatProduct, lanes: int, parts: int) -> tuple[int, int]:
    """Patches and vectors of filters that tiles cover: of a group, or of one of two threads.

    Threads share `parts` such products where there are several.
    """
    patches, vectors = _patches(product), -(-product.filters // lanes)
    row = product.shape[3] + -(-vectors // _FAR_TASKS_WANTED) * lanes
    is_one_group = _PLANES * patches * row * FLOAT_BYTES <= _FAR_CACHED_BYTES
    shares_filters = is_one_group and not costs.are_near(_weight_bytes(product, lanes))
    return patches if shares_filters or parts > 1 else max(1, -(-patches // 2)), vectors


def _dealt(product: FloatProduct, tile: Tile, block: int, parts: int = 1) -> _Tasks:
    """Tasks whose planes stay in the second-level cache.

    Weights from beyond that cache are read once for a group of patches: then groups are worth more
    room, and are few, as tasks also share the filters. So do those of `parts` such products.
    """
    channels, patches = product.shape[3], _patches(product)
    blocks = -(-product.filters // block)
    is_near = costs.are_near(_PLANES * channels * blocks * block * FLOAT_BYTES)
    room = _CACHED_BYTES if is_near else _FAR_CACHED_BYTES
    wanted = -(-(_TASKS_WANTED if is_near else _FAR_TASKS_WANTED) // parts)

    def groups(splits: int) -> int:
        filters = -(-blocks // splits) * block
        most = max(1, room // (_PLANES * (channels + filters) * FLOAT_BYTES) // tile.pixels)
        return -(-patches // (most * tile.pixels))

    if is_near or parts > 1 or product.computed is not None:
        splits, count = parts, max(groups(1), wanted)
    else:
        splits = next((n for n in range(1, wanted) if groups(n) * n >= wanted), wanted)
        splits = min(splits, blocks)
        count = groups(splits)
    each = -(-patches // count)
    tiles = max(1, each // tile.pixels) if is_near else -(-each // tile.pixels)
    each = tiles * tile.pixels
    return _Tasks(each, splits, -(-patches // each))


def _weights(product: FloatProduct, block: int, splits: int, context: Context) -> tuple[Ref, Ref]:
    """The packed biases and weights; a call packs those that are computed."""
    if product.computed is not None:
        return _call_pack(product, product.computed, block, context)
    op, name = product.op, f"{WINOGRAD} {block} {splits} {product.groups}"
    bias, weights = context.packed(op, name, lambda: _pack(product, block, splits)).refs
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


def _pack(product: FloatProduct, block: int, splits: int) -> tuple[list[np.ndarray], None]:
    """Biases and weights."""
    groups = product.groups
    bias = product.epilogue.padded_bias(product.filters, 1).reshape(groups, -1)
    padded = np.pad(bias, ((0, 0), (0, -bias.shape[1] % block)))
    return [padded.reshape(-1), _packed(product.weights(), block, splits, groups)], None


def _packed(weights: FloatArray, block: int, splits: int, groups: int) -> FloatArray:
    """Weights per split, plane and block of filters: a row of filters per input channel."""
    at_points = _evaluation()
    planes = np.einsum("ia,fabc,jb->ijcf", at_points, weights.astype(np.float64), at_points)
    flat = planes.reshape(_PLANES, planes.shape[2], groups, -1).astype(np.float32)
    padded = np.pad(flat, ((0, 0), (0, 0), (0, 0), (0, -flat.shape[3] % block)))
    blocks = padded.reshape(_PLANES, flat.shape[1], -1, block)
    ordered, count = blocks.transpose(0, 2, 1, 3), blocks.shape[2]
    starts = [count * split // splits for split in range(splits + 1)]
    parts = [ordered[:, start:stop] for start, stop in pairwise(starts)]
    return np.concatenate([part.reshape(-1) for part in parts])


def _cycles(product: FloatProduct, registers: Registers, lanes: int, parts: int) -> float:
    """Predicted time of one of `parts` such products."""
    filters, _, _, channels = product.shape
    vectors, patches = -(-filters // lanes), _patches(product)
    tile = choose_tile(registers, *_tiled(product, lanes, parts), channels)
    products = registers.row_cycles(tile, patches, vectors, channels) * _PLANES
    dealt, size = _dealt(product, tile, tile.channels(lanes), parts), _weight_bytes(product, lanes)
    enter = dealt.splits // parts * _ENTER_CYCLES * channels / lanes
    transforms = patches * (enter + _LEAVE_CYCLES * vectors)
    groups = 1 if costs.are_near(size) else dealt.groups
    return products + transforms + groups * costs.weights(size)


def _direct_cycles(product: FloatProduct, registers: Registers, lanes: int) -> float:
    images, height, width = product.sizes
    vectors = vectors_of(registers, product.filters, lanes)
    tile = choose_tile(registers, width, vectors, product.depth, pixel_bytes(product))
    row = registers.row_cycles(tile, width, vectors, product.depth, pixel_bytes(product))
    return images * height * row + costs.weights(prod(product.shape) * FLOAT_BYTES)
