"""Convolutions of int16 activations by groups of channels: products side by side.

A depthwise convolution of several filters for a channel is one of a group for each channel.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.backends.cpu.layout import Border
from circlet.backends.cpu.lower.integers.conv_q16 import (
    call_conv_q16,
    int16_epilogue,
    stored_weights,
)
from circlet.backends.cpu.lower.integers.groups_q8 import Groups, group_count
from circlet.backends.cpu.lower.integers.split_q8 import Part, Source, held, source_of
from circlet.backends.cpu.lower.integers.sum_int import why_not_int16
from circlet.backends.cpu.lower.products.product import Product, View
from circlet.backends.cpu.lower.products.windows import conv_border, tap_strides, window_strides
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank
from circlet.ir import Op, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.operands import operand
from circlet.ops.requantization import requantization_of
from circlet.ops.requantize import scalar_quant
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    data, weights = operand(op, 0), operand(op, 1)
    reason = why_not_int16(op, data, weights, op.input(2))
    alone = weights.shape[3] == data.shape[3]
    return reason or ("has no groups of channels" if alone else None)


def _by_channel_first(weights: Tensor) -> Tensor:
    """[1, down, across, filters] as [filters, down, across, 1]."""
    held = np.ascontiguousarray(np.asarray(weights.data).transpose(3, 1, 2, 0))
    held.flags.writeable = False
    quant = weights.quant
    if quant is not None and quant.is_per_channel:
        quant = replace(quant, axis=0)
    return replace(weights, shape=held.shape, default_shape=None, data=held, quant=quant)


def _as_conv(op: Op) -> Op:
    """The CONV_2D of groups that computes the same as a depthwise convolution."""
    old = op.attributes(DepthwiseConv2DAttrs)
    attrs = Conv2DAttrs(old.padding, old.strides, old.dilations, activation=old.activation)
    inputs = [op.inputs[0], _by_channel_first(operand(op, 1)), op.input(2)]
    policy = requantization_of(op)
    return replace(op, kind="CONV_2D", inputs=inputs, attrs=attrs, requantization=policy)


def _call(part: Part, context: Context) -> None:
    filters, rows, columns, depth = operand(part.op, 1).static_shape
    product = Product(
        part.op,
        part.source,
        part.result,
        part.sizes,
        (filters, rows, columns, depth),
        part.taps,
        lambda: stored_weights(part.op),
        int16_epilogue(part.op),
        part=part.label,
    )
    call_conv_q16(product, context)


def _lower(op: Op, context: Context) -> None:
    source = source_of(op, context, conv_border(op).get(0, Border()))
    groups = Groups.of(op, context.vector_bytes // 4)
    weights = operand(op, 1)
    dense = held(weights, groups.joined(np.asarray(weights.data), scalar_quant(weights)[1]))
    joined = replace(op, inputs=[op.inputs[0], dense, op.input(2)])
    for group in range(groups.total):
        _call(_part(joined, context, source, group), context)


def _part(op: Op, context: Context, source: Source, group: int) -> Part:
    """A group as a product."""
    window, image, out = window_of(op), source.layout, context.layout(op.outputs[0])
    weights, bias = operand(op, 1), op.input(2)
    filters, depth = weights.static_shape[0] // group_count(op), weights.static_shape[3]
    kept = slice(group * filters, (group + 1) * filters)
    own = _sliced(weights, np.asarray(weights.data)[kept], kept)
    offsets = None if bias is None else _sliced(bias, np.asarray(bias.data).reshape(-1)[kept], kept)
    border = conv_border(op).get(0, Border())
    corner = border.top * image.row_stride + border.left * image.pixel_stride
    return Part(
        replace(op, inputs=[op.inputs[0], own, offsets]),
        f" groups {group}",
        source.view(group * depth - corner, *window_strides(window, image)[1:]),
        View.whole(op.outputs[0], out).moved(kept.start),
        (out.batch, out.height, out.width),
        tap_strides(window, image),
    )


def _sliced(tensor: Tensor, data: np.ndarray, kept: slice) -> Tensor:
    """Some of a tensor's channels, with their scales."""
    quant = tensor.quant
    if quant is not None and quant.is_per_channel:
        quant = replace(quant, scale=quant.scale[kept], zero_point=quant.zero_point[kept])
    return replace(held(tensor, data), quant=quant)


def _lower_depthwise(op: Op, context: Context) -> None:
    _lower(_as_conv(op), context)


for _kind, _lower_kind in {"CONV_2D": _lower, "DEPTHWISE_CONV_2D": _lower_depthwise}.items():
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_groups_q16",
            _refuses,
            _lower_kind,
            conv_border,
            strided_inputs=True,
            strided_output=True,
            rank=Rank.DENSE,
        )
    )
