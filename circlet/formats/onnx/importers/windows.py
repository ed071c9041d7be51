"""Convolutions, poolings and resizing: NHWC between two transposes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import SqueezeAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs

Pair = tuple[int, int]


def _steps(node: Node, name: str, axes: int) -> tuple[int, ...]:
    found = node.ints(name) or (1,) * axes
    if len(found) != axes:
        raise node.wrong(f"there is not one of {name} for each axis", str(list(found)))
    return found


def _padding(node: Node, sizes: Sequence[int | None], kernel: Sequence[int]) -> Padding:
    """What lies around an image of these spatial sizes."""
    axes, rule = len(kernel), node.text("auto_pad", "NOTSET")
    if rule == "SAME_UPPER":
        return SAME_UPPER
    if rule == "VALID":
        return ((0, 0),) * axes
    if rule == "SAME_LOWER":
        return _same_lower(node, sizes, kernel)
    pads = node.ints("pads") or (0,) * (2 * axes)
    if len(pads) != 2 * axes:
        raise node.wrong("there are not two pads for each axis", str(list(pads)))
    if min(pads) < 0:
        raise node.wrong("a padding is negative", str(list(pads)))
    return tuple(zip(pads[:axes], pads[axes:], strict=True))


def _same_lower(node: Node, sizes: Sequence[int | None], kernel: Sequence[int]) -> Padding:
    made = []
    strides, dilations = (_steps(node, name, len(kernel)) for name in ("strides", "dilations"))
    for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if size is None:
            raise NotLoweredError("the odd element lies in front, and sizes are open")
        total = max(0, (-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1 - size)
        made.append((total - total // 2, total // 2))
    return tuple(made)


def _image(node: Node, x: Tensor) -> Tensor:
    """NCL as NC1L; NCHW as it is."""
    if node.rank(x) == 3:
        return node.op("EXPAND_DIMS", [x, node.const(2, np.int32)])
    return x


def _signal(node: Node, image: Tensor, rank: int) -> Tensor:
    return node.op("SQUEEZE", [image], SqueezeAttrs((2,))) if rank == 3 else image


def _pair(values: Sequence[int], lead: int = 1) -> Pair:
    return (values[0], values[1]) if len(values) == 2 else (lead, values[0])


def _image_padding(padding: Padding) -> Padding:
    if padding == SAME_UPPER or len(padding) == 2:
        return padding
    return ((0, 0), *padding)


@importer("Conv")
def _conv(node: Node) -> Tensor:
    x, weights, bias = node[0], node[1], node.optional(2)
    rank, group = node.rank(x), node.whole("group", 1)
    if group < 1:
        raise node.wrong("the number of groups is not positive", str(group))
    if node.rank(weights) != rank or None in weights.shape or rank < 3:
        raise NotLoweredError("sizes of the weights are open")
    kernel = [size or 0 for size in weights.shape[2:]]
    padding = _padding(node, x.shape[2:], kernel)
    strides = _steps(node, "strides", len(kernel))
    dilations = _steps(node, "dilations", len(kernel))
    if rank == 5:
        return _volume(node, padding, strides, dilations, group)
    if rank > 5:
        raise NotLoweredError("there are more than three spatial axes")
    image = node.channels_last(_image(node, x))
    steps = (_image_padding(padding), _pair(strides), _pair(dilations))
    made = _image_conv(node, image, _image(node, weights), bias, steps, group)
    return _signal(node, node.channels_first(made), rank)


def _image_conv(
    node: Node,
    image: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    steps: tuple[Padding, Pair, Pair],
    group: int,
) -> Tensor:
    """A convolution of an NHWC image; weights are OIHW."""
    channels = image.shape[3]
    given = [] if bias is None else [bias]
    if group > 1 and group == channels and weights.shape[1] == 1:
        taps = node.transpose(weights, [1, 2, 3, 0])
        multiplier = (weights.shape[0] or 0) // group
        attrs = DepthwiseConv2DAttrs(*steps, depth_multiplier=multiplier)
        return node.op("DEPTHWISE_CONV_2D", [image, taps, *given], attrs)
    if channels is not None and channels != group * (weights.shape[1] or 0):
        raise node.wrong("channels, groups and weights do not fit", f"{channels} channels")
    taps = node.transpose(weights, [0, 2, 3, 1])
    return node.op("CONV_2D", [image, taps, *given], Conv2DAttrs(*steps, groups=group))


def _volume(
    node: Node, padding: Padding, strides: Sequence[int], dilations: Sequence[int], group: int
) -> Tensor:
    if group != 1:
        raise NotLoweredError("volumes have no groups")
    attrs = Conv3DAttrs(
        padding, (strides[0], strides[1], strides[2]), (dilations[0], dilations[1], dilations[2])
    )
    weights = node.transpose(node[1], [2, 3, 4, 1, 0])
    given = [node[2]] if node.optional(2) else []
    made = node.op("CONV_3D", [node.channels_last(node[0]), weights, *given], attrs)
    return node.channels_first(made)


@importer("ConvTranspose")
def _conv_transpose(node: Node) -> Tensor:
    x, weights, bias = node[0], node[1], node.optional(2)
    rank = node.rank(x)
    if rank not in (3, 4) or node.whole("group", 1) != 1 or None in (*x.shape[1:], *weights.shape):
        raise NotLoweredError("groups, volumes and open sizes have no such form")
    if any(step != 1 for step in node.ints("dilations") or ()):
        raise NotLoweredError("TRANSPOSE_CONV has no dilations")
    kernel, strides = [size or 0 for size in weights.shape[2:]], _steps(node, "strides", rank - 2)
    sizes, pads = _transposed_sizes(node, [size or 0 for size in x.shape[2:]], kernel, strides)
    if any(before < 0 or after < 0 for before, after in pads):
        raise NotLoweredError("the output is larger than what the windows reach")
    image = node.channels_last(_image(node, x))
    taps = node.transpose(_image(node, weights), [1, 2, 3, 0])
    height, width = _pair(sizes)
    shape = _output_shape(node, x, (height, width, weights.shape[1] or 0))
    attrs = TransposeConvAttrs(_image_padding(tuple(pads)), _pair(strides))
    made = node.op("TRANSPOSE_CONV", [shape, taps, image, bias], attrs, x.dtype)
    return _signal(node, node.channels_first(made), rank)


def _output_shape(node: Node, x: Tensor, sizes: tuple[int, int, int]) -> Tensor:
    from circlet.ops.layout import ConcatenationAttrs

    if x.shape[0] is not None:
        return node.const((x.shape[0], *sizes), np.int32)
    batch = node.op("SLICE", [node.sizes(x), *(node.const([n], np.int64) for n in (0, 1))])
    parts = [node.cast(batch, DType.INT32), node.const(sizes, np.int32)]
    return node.op("CONCATENATION", parts, ConcatenationAttrs(0))


def _transposed_sizes(
    node: Node, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[Pair]]:
    """Sizes of the result, and what lies around it when it is convolved back."""
    axes = len(kernel)
    extra = node.ints("output_padding") or (0,) * axes
    wanted, rule = node.ints("output_shape"), node.text("auto_pad", "NOTSET")
    given = node.ints("pads") or (0,) * (2 * axes)
    made: list[int] = []
    pads: list[Pair] = []
    for axis, (size, taps, stride) in enumerate(zip(sizes, kernel, strides, strict=True)):
        full = stride * (size - 1) + taps + extra[axis]
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


def _pool(node: Node, record: str) -> Tensor:
    x = node[0]
    rank, kernel = node.rank(x), node.ints("kernel_shape") or ()
    if len(kernel) != rank - 2 or rank not in (3, 4):
        raise NotLoweredError("only signals and images are pooled so")
    if any(step != 1 for step in node.ints("dilations") or ()):
        raise NotLoweredError("poolings have no dilations")
    strides, padding = _steps(node, "strides", rank - 2), _padding(node, x.shape[2:], kernel)
    image = node.channels_last(_image(node, x))
    around = _image_padding(padding)
    if node.whole("ceil_mode") and around != SAME_UPPER:
        around = _ceiled(node, image.shape[1:3], around, _pair(kernel), _pair(strides))
    if record == "AVERAGE_POOL_2D" and node.whole("count_include_pad"):
        image, around = _filled_border(node, image, around)
    attrs = Pool2DAttrs(around, _pair(strides), _pair(kernel))
    return _signal(node, node.channels_first(node.op(record, [image], attrs)), rank)


def _ceiled(
    node: Node, sizes: Sequence[int | None], padding: Padding, kernel: Pair, strides: Pair
) -> Padding:
    """Padding with which a last window that is not whole is one as well."""
    assert padding != SAME_UPPER
    made = []
    for size, (before, after), taps, stride in zip(sizes, padding, kernel, strides, strict=True):
        if size is None:
            raise NotLoweredError("incomplete windows count, and sizes are open")
        count = -(-(before + size + after - taps) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1
        made.append((before, max(after, (count - 1) * stride + taps - size - before)))
    if node.whole("count_include_pad") and tuple(made) != padding:
        raise NotLoweredError("padding counts, incomplete windows do not")
    return tuple(made)


def _filled_border(node: Node, image: Tensor, padding: Padding) -> tuple[Tensor, Padding]:
    """An image with its padding as pixels, which then count."""
    if padding == SAME_UPPER:
        raise NotLoweredError("padding that counts depends on sizes")
    if not any(map(any, padding)):
        return image, padding
    table = node.const([(0, 0), *padding, (0, 0)], np.int32)
    return node.op("PAD", [image, table]), ((0, 0), (0, 0))


@importer("MaxPool")
def _max_pool(node: Node) -> Tensor:
    if node.wants(1):
        raise NotLoweredError("places of the largest are asked for")
    return _pool(node, "MAX_POOL_2D")


@importer("AveragePool")
def _average_pool(node: Node) -> Tensor:
    return _pool(node, "AVERAGE_POOL_2D")


def _over_pixels(node: Node, record: str) -> Tensor:
    x = node[0]
    if x.dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is reduced so")
    axes = node.const(range(2, node.rank(x)), np.int32)
    return node.op(record, [x, axes], ReducerAttrs(True))


@importer("GlobalAveragePool")
def _global_average_pool(node: Node) -> Tensor:
    return _over_pixels(node, "MEAN")


@importer("GlobalMaxPool")
def _global_max_pool(node: Node) -> Tensor:
    return _over_pixels(node, "REDUCE_MAX")
