"""Windows over signals, images and volumes: what convolutions and poolings share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.ir import Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.shape import SqueezeAttrs
from circlet.words import counted

Pair = tuple[int, int]


def steps_of(node: Node, name: str, axes: int) -> tuple[int, ...]:
    """Strides or dilations, one for each spatial axis."""
    found = node.ints(name) or (1,) * axes
    if len(found) != axes:
        raise node.wrong(f"there is not one of {name} for each axis", str(list(found)))
    return found


def padding_of(node: Node, sizes: Sequence[int | None], kernel: Sequence[int]) -> Padding:
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
    strides, dilations = (steps_of(node, name, len(kernel)) for name in ("strides", "dilations"))
    for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if size is None:
            raise NotLoweredError("the odd element lies in front, and sizes are open")
        total = max(0, (-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1 - size)
        made.append((total - total // 2, total // 2))
    return tuple(made)


def as_image(node: Node, x: Tensor) -> Tensor:
    """NCL as NC1L; NCHW as it is."""
    if node.rank(x) == 3:
        return node.op("EXPAND_DIMS", [x, node.const(2, np.int32)])
    return x


def as_signal(node: Node, image: Tensor, rank: int) -> Tensor:
    """NC1L as NCL where the operand was a signal."""
    return node.op("SQUEEZE", [image], SqueezeAttrs((2,))) if rank == 3 else image


def pair_of(values: Sequence[int], lead: int = 1) -> Pair:
    """One number for each of two axes; that of the first is `lead` where there is one axis."""
    return (values[0], values[1]) if len(values) == 2 else (lead, values[0])


def image_padding(padding: Padding) -> Padding:
    """The padding of a signal as that of an image of one row; other padding as it is."""
    if padding == SAME_UPPER or len(padding) != 1:
        return padding
    return ((0, 0), *padding)


def planes_of(node: Node, volume: Tensor) -> Tensor:
    """The planes of [batch, depth, height, width, channels], one after the other as images."""
    sizes = volume.shape[2:]
    if None in sizes or None in (volume.shape[1],):
        raise NotLoweredError("sizes of a volume are open")
    return node.reshape(volume, [-1, *(size or 0 for size in sizes)])


def volume_of(node: Node, planes: Tensor, depth: int) -> Tensor:
    """Planes one after the other as volumes of so many."""
    sizes = [size or 0 for size in planes.shape[1:]]
    return node.reshape(planes, [-1, depth, *sizes])


def image_conv(
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
        raise node.wrong("channels, groups and weights do not fit", counted(channels, "channel"))
    taps = node.transpose(weights, [0, 2, 3, 1])
    return node.op("CONV_2D", [image, taps, *given], Conv2DAttrs(*steps, groups=group))
