"""Pools whose padding does not count, as operators that files can say."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.conv import DepthwiseConv2DAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.geometry import UNPADDED
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import operand
from circlet.ops.pool import Pool2DAttrs, pool_window_of
from circlet.ops.quotient import DivAttrs

_MOST_PIECES = 256


class _Band(NamedTuple):
    """Windows along an axis that hold equally many pixels.

    Attributes:
        begin: The first pixel.
        length: Pixels of the image that they cover.
        taps: Pixels of each window.
    """

    begin: int
    length: int
    taps: int


def split_pool(op: Op) -> list[Op]:
    """Operators that compute what a padded AVERAGE_POOL_2D or L2_POOL_2D does, bit for bit.

    An average of floats is a sum of the padded image, by a depthwise convolution with weights of 1,
    divided by the pixels of each window. Others are pools of parts of the image, whose windows
    hold equally many pixels, one beside the other. None where sizes are open.
    """
    image = operand(op, 0)
    if None in image.shape[1:] or not image.has_rank:
        return []
    if op.kind == "AVERAGE_POOL_2D" and image.dtype is DType.FLOAT32:
        return _quotient(op, image)
    return _joined(op, image)


def _quotient(op: Op, image: Tensor) -> list[Op]:
    attrs, parts, channels = op.attributes(Pool2DAttrs), Parts(op), image.static_shape[-1]
    table = parts.constant(np.array(((0, 0), *attrs.padding, (0, 0)), np.int32))
    padded = parts.make("PAD", [image, table])
    ones = parts.constant(np.ones((1, *attrs.kernel_shape, channels), np.float32))
    bias = parts.constant(np.zeros(channels, np.float32))
    sums = DepthwiseConv2DAttrs(strides=attrs.strides, depth_multiplier=1)
    total = parts.make("DEPTHWISE_CONV_2D", [padded, ones, bias], sums)
    taps = (np.array([end - begin for begin, end in _windows(op, axis)]) for axis in (0, 1))
    counts = np.outer(*taps).astype(np.float32)
    inputs = [total, parts.constant(counts[None, :, :, None])]
    parts.make("DIV", inputs, DivAttrs(attrs.activation), op.outputs[0])
    return parts.ops


def _joined(op: Op, image: Tensor) -> list[Op]:
    rows, columns = (_bands(op, axis) for axis in (0, 1))
    if len(rows) * len(columns) > _MOST_PIECES:
        return []
    parts = Parts(op)
    lines = [
        _beside(parts, [_piece(parts, op, image, row, column) for column in columns], 2)
        for row in rows
    ]
    _beside(parts, lines, 1)
    parts.ops[-1].outputs = op.outputs
    return parts.ops


def _piece(parts: Parts, op: Op, image: Tensor, row: _Band, column: _Band) -> Tensor:
    """The pool of the part of an image that some windows cover; channels and images are whole."""
    begin = parts.constant(np.array([0, row.begin, column.begin, 0], np.int32))
    extent = parts.constant(np.array([-1, row.length, column.length, -1], np.int32))
    part = parts.make("SLICE", [image, begin, extent])
    part.quant = image.quant
    own = replace(
        op.attributes(Pool2DAttrs), padding=UNPADDED, kernel_shape=(row.taps, column.taps)
    )
    pooled = parts.make(op.kind, [part], own)
    pooled.quant = op.outputs[0].quant
    return pooled


def _beside(parts: Parts, pieces: list[Tensor], axis: int) -> Tensor:
    """Pieces one behind the other along an axis."""
    if len(pieces) == 1:
        return pieces[0]
    whole = parts.make("CONCATENATION", pieces, ConcatenationAttrs(axis))
    whole.quant = pieces[0].quant
    return whole


def _windows(op: Op, axis: int) -> list[tuple[int, int]]:
    """The first pixel of each window along an axis of the image, and the one behind the last."""
    size, window = operand(op, 0).static_shape[axis + 1], pool_window_of(op)[1:][axis]
    before = int(op.attributes(Pool2DAttrs).padding[axis][0])
    firsts = [i * window.stride - before for i in range(op.outputs[0].static_shape[axis + 1])]
    return [(max(0, first), min(size, first + window.size)) for first in firsts]


def _bands(op: Op, axis: int) -> list[_Band]:
    """The windows along an axis, those inside the image together, each other one alone."""
    size = pool_window_of(op)[1:][axis].size
    found: list[_Band] = []
    for begin, end in _windows(op, axis):
        if found and end - begin == size == found[-1].taps:
            begin = found.pop().begin
        found.append(_Band(begin, end - begin, min(size, end - begin)))
    return found
