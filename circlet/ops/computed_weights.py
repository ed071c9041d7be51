"""Convolutions over 8-bit weights that are computed, as those that kernels know.

Kernels take such weights where every filter reads every channel and windows slide over the input.
The parts are exact: zero points stand for 0, and sums are those of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.ir import DType, Op, Quantization, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.geometry import Window2D
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import operand
from circlet.ops.split import SplitAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs, transposed_window_of

MOST_GROUPS = 64
_STORED = (DType.INT8, DType.UINT8)


def has_computed_bytes(op: Op, data: int = 0, weights: int = 1) -> bool:
    """Whether 8-bit weights are computed, and meet such data; all sizes are known."""
    source, filters = operand(op, data), operand(op, weights)
    stored = source.dtype in _STORED and filters.dtype in _STORED
    known = all(t.has_rank and None not in t.shape for t in (source, filters, *op.outputs))
    return stored and known and not filters.is_constant


def groups_apart(op: Op) -> list[Op]:
    """A CONV_2D of few groups: one for each, and their results side by side."""
    weights = operand(op, 1)
    if not has_computed_bytes(op) or not weights.static_shape[3]:
        return []
    groups = operand(op, 0).static_shape[3] // weights.static_shape[3]
    if not 1 < groups <= MOST_GROUPS:
        return []
    return _apart(op, Parts(op), weights, replace(op.attributes(Conv2DAttrs), groups=1), groups)


def channels_apart(op: Op) -> list[Op]:
    """A DEPTHWISE_CONV_2D of few channels: a CONV_2D for each."""
    weights, channels = operand(op, 1), operand(op, 0).shape[-1:]
    if not has_computed_bytes(op) or not 1 <= (channels[0] or 0) <= MOST_GROUPS:
        return []
    given, (_, rows, columns, filters) = op.attributes(DepthwiseConv2DAttrs), weights.static_shape
    parts = Parts(op)
    turned = _like(weights, (filters, rows, columns, 1), _along(weights, 0, slice(None)))
    parts.make("TRANSPOSE", [weights, _ints(parts, (3, 1, 2, 0))], result=turned)
    attrs = Conv2DAttrs(given.padding, given.strides, given.dilations, 1, given.activation)
    return _apart(op, parts, turned, attrs, operand(op, 0).static_shape[3])


def _apart(op: Op, parts: Parts, weights: Tensor, attrs: Conv2DAttrs, groups: int) -> list[Op]:
    result, (data, bias) = op.outputs[0], (operand(op, 0), op.input(2))
    filters = weights.static_shape[0] // groups
    images = _split(parts, data, 3, groups)
    kernels = _split(parts, weights, 0, groups)
    biases = [None] * groups if bias is None else _split(parts, bias, 0, groups)
    shape = (*result.static_shape[:3], filters)
    made = [_like(result, shape, result.quant) for _ in range(groups)]
    for x, w, b, part in zip(images, kernels, biases, made, strict=True):
        parts.make("CONV_2D", [x, w, b], attrs, part)
        parts.ops[-1].requantization = op.requantization
    if groups == 1:
        parts.ops[-1].outputs = [result]
        return parts.ops
    parts.make("CONCATENATION", made, ConcatenationAttrs(3), result)
    return parts.ops


def _split(parts: Parts, source: Tensor, axis: int, count: int) -> list[Tensor]:
    """Equal parts of a tensor along an axis; of a constant, constants."""
    if count == 1:
        return [source]
    size = source.static_shape[axis] // count
    if source.data is not None:
        return [parts.constant(part) for part in np.split(source.data, count, axis)]
    shape = tuple(size if i == axis else n for i, n in enumerate(source.static_shape))
    made: list[Tensor] = [
        _like(source, shape, _along(source, axis, slice(i * size, (i + 1) * size)))
        for i in range(count)
    ]
    inputs = [parts.constant(np.int32(axis)), source]
    parts.make_many("SPLIT", inputs, SplitAttrs(count), results=made)
    return made


def _like(tensor: Tensor, shape: Sequence[int], quant: Quantization | None) -> Tensor:
    made = tensor.like()
    made.shape, made.quant = tuple(shape), quant
    return made


def _along(tensor: Tensor, axis: int, part: slice) -> Quantization | None:
    """The quantisation of part of a tensor; scales of channels lie along `axis`."""
    quant = tensor.quant
    if quant is None or not quant.is_per_channel:
        return quant
    return Quantization.per_channel(quant.scale[part], axis)


def _ints(parts: Parts, values: Sequence[object]) -> Tensor:
    return parts.constant(np.array(values, np.int32))


def pixels_apart(op: Op) -> list[Op]:
    """A TRANSPOSE_CONV: a CONV_2D over the pixels with zeros between, by turned windows."""
    weights, data = operand(op, 1), operand(op, 2)
    if not has_computed_bytes(op, 2, 1) or 0 in op.outputs[0].shape:
        return []
    window = transposed_window_of(op)
    amounts = _amounts(op, window)
    if min(min(pair) for pair in amounts) < 0:
        return []
    parts, given = Parts(op), op.attributes(TransposeConvAttrs)
    turned = _like(weights, weights.static_shape, weights.quant)
    parts.make("REVERSE_V2", [weights, _ints(parts, (1, 2))], result=turned)
    spread = _spread(parts, data, given.strides)
    attrs = Conv2DAttrs(amounts, groups=1, activation=given.activation)
    parts.make("CONV_2D", [spread, turned, op.input(3)], attrs, op.outputs[0])
    parts.ops[-1].requantization = op.requantization
    return parts.ops


def _amounts(op: Op, window: Window2D) -> tuple[tuple[int, int], ...]:
    """What lies around the pixels with zeros between, so that there are as many windows."""
    sizes, pixels = op.outputs[0].static_shape[1:3], operand(op, 2).static_shape[1:3]
    before = [pads[0] for pads in window.pads(*sizes)]
    rows = zip(sizes, pixels, before, (window.rows, window.columns), strict=True)
    return tuple(
        (taps.size - 1 - start, size + start - ((count - 1) * taps.stride + 1))
        for size, count, start, taps in rows
    )


def _spread(parts: Parts, data: Tensor, strides: tuple[int, int]) -> Tensor:
    """An image with a pixel in place of each `strides`, and zeros between."""
    (batch, height, width, depth), (down, across) = data.static_shape, strides
    if strides == (1, 1):
        return data
    wide = _padded(parts, data, (batch * height * width, 1, depth), across)
    tall = _padded(parts, wide, (batch * height, 1, width * across * depth), down)
    whole = _like(data, (batch, height * down, width * across, depth), data.quant)
    parts.reshape(tall, whole.static_shape, whole)
    kept = (batch, (height - 1) * down + 1, (width - 1) * across + 1, depth)
    result = _like(data, kept, data.quant)
    parts.make("SLICE", [whole, _ints(parts, (0,) * 4), _ints(parts, kept)], result=result)
    return result


def _padded(parts: Parts, source: Tensor, shape: tuple[int, int, int], count: int) -> Tensor:
    """Rows in another shape, each with `count - 1` rows of zeros behind."""
    rows = _like(source, shape, source.quant)
    parts.reshape(source, shape, rows)
    result = _like(source, (shape[0], count, shape[2]), source.quant)
    parts.make("PAD", [rows, _ints(parts, ((0, 0), (0, count - 1), (0, 0)))], result=result)
    return result
