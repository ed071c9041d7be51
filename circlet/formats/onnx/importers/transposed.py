"""Transposed convolutions: every pixel adds its scaled filter to the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.formats.onnx.importers.windows import (
    Pair,
    as_image,
    as_signal,
    image_conv,
    image_padding,
    pair_of,
    steps_of,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.split import SplitAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs

_MOST_APART = 8  # groups that become transposed convolutions of their own


@dataclass(frozen=True)
class _Windows:
    """What a node says for each spatial axis, and the sizes of the result.

    Attributes:
        pads: What lies around the result when it is convolved back.
    """

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sizes: tuple[int, ...]
    pads: tuple[Pair, ...]


@importer("ConvTranspose")
def _conv_transpose(node: Node) -> Tensor:
    x, weights, group = node[0], node[1], node.whole("group", 1)
    rank = node.rank(x)
    if rank not in (3, 4, 5) or None in (*x.shape[1:], *weights.shape):
        raise NotLoweredError("sizes are open, or there are more than three spatial axes")
    if group < 1 or x.shape[1] != weights.shape[0] or (weights.shape[0] or 0) % group:
        raise node.wrong("channels, groups and weights do not fit", f"{x.shape[1]} channels")
    windows = _windows(node, x, weights)
    if rank == 5:
        return _volume(node, windows, group)
    is_plain = all(step == 1 for step in windows.dilations)
    image = node.channels_last(as_image(node, x))
    if is_plain and group == 1:
        made = _adding(node, image, weights, node.optional(2), windows)
    elif is_plain and group <= _MOST_APART:
        made = _apart(node, image, windows, group)
    else:
        made = _between_zeros(node, image, windows, group)
    return as_signal(node, node.channels_first(made), rank)


def _windows(node: Node, x: Tensor, weights: Tensor) -> _Windows:
    taps, axes = tuple(size or 0 for size in weights.shape[2:]), len(x.shape) - 2
    strides, dilations = (steps_of(node, name, axes) for name in ("strides", "dilations"))
    extents = [(count - 1) * step + 1 for count, step in zip(taps, dilations, strict=True)]
    sizes, pads = _sizes(node, [size or 0 for size in x.shape[2:]], extents, strides)
    if any(before < 0 or after < 0 for before, after in pads):
        raise NotLoweredError("the output is larger than what the windows reach")
    return _Windows(taps, strides, dilations, tuple(sizes), tuple(pads))


def _sizes(
    node: Node, sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[Pair]]:
    """Sizes of the result, and what lies around it when it is convolved back."""
    axes = len(extents)
    extra = node.ints("output_padding") or (0,) * axes
    wanted, rule = node.ints("output_shape"), node.text("auto_pad", "NOTSET")
    given = node.ints("pads") or (0,) * (2 * axes)
    made: list[int] = []
    pads: list[Pair] = []
    for axis, (size, extent, stride) in enumerate(zip(sizes, extents, strides, strict=True)):
        full = stride * (size - 1) + extent + extra[axis]
        before, after = given[axis], given[axis + axes]
        if wanted is not None or rule.startswith("SAME"):
            target = wanted[-axes:][axis] if wanted is not None else size * stride
            total = full - target
            small, large = total // 2, total - total // 2
            before, after = (small, large) if rule == "SAME_UPPER" else (large, small)
        elif rule == "VALID":
            before = after = 0
        made.append(full - before - after)
        pads.append((before, after - extra[axis]))
    return made, [(before, max(after, 0)) for before, after in pads]


def _adding(
    node: Node, image: Tensor, weights: Tensor, bias: Tensor | None, windows: _Windows
) -> Tensor:
    """TRANSPOSE_CONV of an NHWC image; weights are [channels, filters, ...taps]."""
    taps = node.transpose(as_image(node, weights), [1, 2, 3, 0])
    shape = _shape(node, image, (*pair_of(windows.sizes), weights.shape[1] or 0))
    attrs = TransposeConvAttrs(image_padding(windows.pads), pair_of(windows.strides))
    return node.op("TRANSPOSE_CONV", [shape, taps, image, bias], attrs, image.dtype)


def _shape(node: Node, image: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if image.shape[0] is not None:
        return node.const((image.shape[0], *sizes), np.int32)
    batch = node.op("SLICE", [node.sizes(image), *(node.const([n], np.int64) for n in (0, 1))])
    parts = [node.cast(batch, DType.INT32), node.const(sizes, np.int32)]
    return node.op("CONCATENATION", parts, ConcatenationAttrs(0))


def _apart(node: Node, image: Tensor, windows: _Windows, group: int) -> Tensor:
    """Few groups: a transposed convolution for each, and their results side by side."""
    bias = node.optional(2)
    images, kernels = _split(node, image, 3, group), _split(node, node[1], 0, group)
    none: list[Tensor | None] = [None] * group
    biases = none if bias is None else [*_split(node, bias, 0, group)]
    made = [
        _adding(node, x, w, b, windows) for x, w, b in zip(images, kernels, biases, strict=True)
    ]
    return node.op("CONCATENATION", made, ConcatenationAttrs(3))


def _split(node: Node, x: Tensor, axis: int, count: int) -> list[Tensor]:
    operands = [node.const(axis, np.int32), x]
    return node.many("SPLIT", operands, SplitAttrs(count), [x.dtype] * count)


def _between_zeros(node: Node, image: Tensor, windows: _Windows, group: int) -> Tensor:
    """Many groups, or steps between taps: a convolution of the pixels with zeros between."""
    around = _around(image.shape[1:3], windows, pair_of(windows.strides))
    image = _spread(node, image, pair_of(windows.strides))
    weights = as_image(node, node[1])
    channels, filters, rows, columns = (size or 0 for size in weights.shape)
    turned = node.op("REVERSE_V2", [weights, node.const([2, 3], np.int32)])
    by_group = node.reshape(turned, [group, channels // group, filters, rows, columns])
    swapped = node.transpose(by_group, [0, 2, 1, 3, 4])
    taps = node.reshape(swapped, [group * filters, channels // group, rows, columns])
    steps = (around, (1, 1), pair_of(windows.dilations))
    return image_conv(node, image, taps, node.optional(2), steps, group)


def _around(pixels: Sequence[int | None], windows: _Windows, strides: Pair) -> tuple[Pair, Pair]:
    """What lies around the pixels with zeros between, so that there are as many windows."""
    extents = [
        (taps - 1) * step + 1 for taps, step in zip(windows.taps, windows.dilations, strict=True)
    ]
    pads = windows.pads if len(windows.pads) == 2 else ((0, 0), *windows.pads)
    made = [
        (extent - 1 - before, size + before - ((count or 0) - 1) * stride - 1)
        for size, count, (before, _), extent, stride in zip(
            pair_of(windows.sizes), pixels, pads, pair_of(extents), strides, strict=True
        )
    ]
    if min(min(pair) for pair in made) < 0:
        raise NotLoweredError("parts of the windows at the border are cut off")
    return made[0], made[1]


def _spread(node: Node, image: Tensor, strides: Sequence[int]) -> Tensor:
    """An image with a pixel in place of each `strides`, and zeros between."""
    for axis, stride in enumerate(strides, 1):
        if stride == 1:
            continue
        sizes = [size or 0 for size in image.shape[1:]]
        inner = prod(sizes[axis:])
        rows = node.reshape(image, [-1, 1, inner])
        table = node.const([(0, 0), (0, stride - 1), (0, 0)], np.int32)
        wide = list(sizes)
        wide[axis - 1] *= stride
        whole = node.reshape(node.op("PAD", [rows, table]), [-1, *wide])
        kept = [-1, *wide]
        kept[axis] -= stride - 1
        begin = node.const([0] * len(kept), np.int32)
        image = node.op("SLICE", [whole, begin, node.const(kept, np.int32)])
    return image


def _volume(node: Node, windows: _Windows, group: int) -> Tensor:
    if group != 1 or any(step != 1 for step in windows.dilations):
        raise NotLoweredError("volumes have no groups and no dilations")
    volume, weights = node.channels_last(node[0]), node[1]
    taps = node.transpose(weights, [2, 3, 4, 1, 0])
    shape = _shape(node, volume, (*windows.sizes, weights.shape[1] or 0))
    steps = windows.strides
    attrs = Conv3DAttrs(windows.pads, (steps[0], steps[1], steps[2]))
    given = [node[2]] if node.optional(2) else []
    made = node.op("CONV_3D_TRANSPOSE", [shape, taps, volume, *given], attrs, volume.dtype)
    return node.channels_first(made)
