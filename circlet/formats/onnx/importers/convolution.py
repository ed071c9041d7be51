"""Convolutions: NHWC between two transposes."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.windows import (
    as_image,
    as_signal,
    image_conv,
    image_padding,
    padding_of,
    pair_of,
    planes_of,
    steps_of,
    volume_of,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.words import counted

Steps = tuple[Padding, tuple[int, ...], tuple[int, ...]]


@importer("Conv")
def _conv(node: Node) -> Tensor:
    x, weights, bias = node[0], node[1], node.optional(2)
    rank, group = node.rank(x), node.whole("group", 1)
    if group < 1:
        raise node.wrong("the number of groups is not positive", str(group))
    if node.rank(weights) != rank or None in weights.shape or rank < 3:
        raise NotLoweredError("sizes of the weights are open")
    kernel = [size or 0 for size in weights.shape[2:]]
    padding = padding_of(node, x.shape[2:], kernel)
    strides = steps_of(node, "strides", len(kernel))
    dilations = steps_of(node, "dilations", len(kernel))
    if rank == 5:
        steps = (padding, strides, dilations)
        return _volume(node, steps) if group == 1 else _grouped_volume(node, steps, group)
    if rank > 5:
        raise NotLoweredError("there are more than three spatial axes")
    image = node.channels_last(as_image(node, x))
    around = image_padding(padding)
    pairs = (around, pair_of(strides), pair_of(dilations))
    made = image_conv(node, image, as_image(node, weights), bias, pairs, group)
    return as_signal(node, node.channels_first(made), rank)


def _volume(node: Node, steps: Steps) -> Tensor:
    padding, strides, dilations = steps
    attrs = Conv3DAttrs(
        padding, (strides[0], strides[1], strides[2]), (dilations[0], dilations[1], dilations[2])
    )
    weights = node.transpose(node[1], [2, 3, 4, 1, 0])
    given = [node[2]] if node.optional(2) else []
    made = node.op("CONV_3D", [node.channels_last(node[0]), weights, *given], attrs)
    return node.channels_first(made)


def _grouped_volume(node: Node, steps: Steps, group: int) -> Tensor:
    """For each tap along the depth, the planes that it meets as images; and the sum of those."""
    padding, strides, dilations = steps
    volume, weights = node.channels_last(node[0]), node[1]
    if padding == SAME_UPPER or None in volume.shape[1:]:
        raise NotLoweredError("sizes of a volume are open, or its padding depends on them")
    if any(padding[0]):
        table = node.const([(0, 0), padding[0], (0, 0), (0, 0), (0, 0)], np.int32)
        volume = node.op("PAD", [volume, table])
    taps, depth = weights.shape[2] or 0, volume.shape[1] or 0
    count = (depth - (taps - 1) * dilations[0] - 1) // strides[0] + 1
    pairs = (padding[1:], pair_of(strides[1:]), pair_of(dilations[1:]))
    total: Tensor | None = None
    for tap in range(taps):
        begin = tap * dilations[0]
        met = _every(node, volume, begin, strides[0], count)
        filters = node.op("GATHER", [weights, node.const(tap, np.int32)], GatherAttrs(axis=2))
        bias = node.optional(2) if tap == 0 else None
        made = image_conv(node, planes_of(node, met), filters, bias, pairs, group)
        total = made if total is None else node.op("ADD", [total, made])
    if total is None or count < 1:
        raise node.wrong("the window does not fit", counted(depth, "plane"))
    return node.channels_first(volume_of(node, total, count))


def _every(node: Node, volume: Tensor, begin: int, step: int, count: int) -> Tensor:
    """So many planes, each `step` behind the other."""
    if (begin, step, count) == (0, 1, volume.shape[1]):
        return volume
    last = begin + (count - 1) * step + 1
    ends = [(0, 0, 1), (begin, last, step), (0, 0, 1), (0, 0, 1), (0, 0, 1)]
    operands = [node.const(list(side), np.int32) for side in zip(*ends, strict=True)]
    whole = 0b11101
    return node.op("STRIDED_SLICE", [volume, *operands], StridedSliceAttrs(whole, whole))
