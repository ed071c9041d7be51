"""Convolutions: images with channels first, weights laid out as the file is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import (
    NotWrittenError,
    Order,
    Value,
    channels_first,
)
from circlet.ir import DType, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.conv3d import Conv3DAttrs, pads_before, windows_of
from circlet.ops.geometry import SAME_UPPER, Padding, Window, output_size, padding_sizes
from circlet.ops.transpose_conv import TransposeConvAttrs, transposed_window_of

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


def pads(
    padding: Padding, sizes: Sequence[int | None], windows: Sequence[Window]
) -> dict[str, object]:
    """The attribute that says what lies around an image of these spatial sizes."""
    if padding != SAME_UPPER:
        pairs = list(padding)
    elif None in sizes:
        return {"auto_pad": "SAME_UPPER"}
    else:
        pairs = [_same(size or 0, window) for size, window in zip(sizes, windows, strict=True)]
    return {"pads": [before for before, _ in pairs] + [after for _, after in pairs]}


def _same(size: int, window: Window) -> tuple[int, int]:
    count = output_size(SAME_UPPER, size, window) or 0
    return padding_sizes(SAME_UPPER, size, count, window)


def bias_value(op: Written, bias: Tensor | None, data: Tensor, weights: Tensor) -> list[Value]:
    """A bias as real numbers, if there is one; whole ones are steps of the products."""
    if bias is None:
        return []
    if bias.dtype.is_float:
        return [_flat(op, bias, op.real(bias))]
    if data.quant is None or weights.quant is None or bias.dtype not in (DType.INT32, DType.INT64):
        raise NotWrittenError(f"its bias is of type {bias.dtype.name} without a scale")
    steps = (data.quant.scale.reshape(-1)[:1] * weights.quant.scale).astype(np.float32)
    if bias.dtype is DType.INT64:
        if bias.data is None:
            raise NotWrittenError("its bias of INT64 is computed in a run")
        return [op.constant((bias.data.reshape(-1) * steps.astype(np.float64)).astype(np.float32))]
    stored = _flat(op, bias, op.value(bias))
    per_axis = steps.size > 1
    scale = op.constant(steps if per_axis else steps.reshape(()))
    attributes = {"axis": 0} if per_axis else {}
    return [op.node("DequantizeLinear", [stored, scale], **attributes)]


def _flat(op: Written, bias: Tensor, value: Value) -> Value:
    if len(bias.shape) == 1:
        return value
    if bias.data is not None:
        return op.constant(np.asarray(bias.data).reshape(-1))
    return op.reshape(value, [-1])


def _convolved(
    op: Written,
    kind: str,
    operands: Sequence[Tensor | None],
    order: Order,
    activation: str,
    **attributes: object,
) -> None:
    """Write a convolution of data and weights, with the axes of the weights in an order."""
    data, weights, bias = operands
    assert data is not None
    assert weights is not None
    if weights.dtype is DType.UINT8 and weights.quant is not None and weights.quant.is_per_channel:
        raise NotWrittenError("LiteRT reads one scale of weights of UINT8, and there are several")
    image = channels_first(len(data.shape))
    given = [op.real(data, image), op.real(weights, order)]
    given += bias_value(op, bias, data, weights)
    made = op.node(kind, given, **attributes)
    op.finish(made, activation, image)


@writes("CONV_2D")
def _conv(op: Written) -> None:
    attrs, data, weights = op.attrs(Conv2DAttrs), op[0], op[1]
    window = window_of(op.op)
    depth, filters_depth = data.shape[3], weights.static_shape[3]
    group = attrs.groups
    if group is None:
        if depth is None or not filters_depth or depth % filters_depth:
            raise NotWrittenError("how many groups it has is not known")
        group = depth // filters_depth
    _convolved(
        op,
        "Conv",
        [data, weights, op.op.input(2)],
        channels_first(4),
        attrs.activation,
        group=group,
        kernel_shape=list(weights.static_shape[1:3]),
        strides=list(attrs.strides),
        dilations=list(attrs.dilations),
        **pads(attrs.padding, data.shape[1:3], window[1:]),
    )


@writes("DEPTHWISE_CONV_2D")
def _depthwise(op: Written) -> None:
    attrs, data, weights = op.attrs(DepthwiseConv2DAttrs), op[0], op[1]
    if data.shape[3] is None:
        raise NotWrittenError("how many channels it has is not known")
    _convolved(
        op,
        "Conv",
        [data, weights, op.op.input(2)],
        (3, 0, 1, 2),
        attrs.activation,
        group=data.shape[3],
        kernel_shape=list(weights.static_shape[1:3]),
        strides=list(attrs.strides),
        dilations=list(attrs.dilations),
        **pads(attrs.padding, data.shape[1:3], window_of(op.op)[1:]),
    )


@writes("CONV_3D")
def _conv3d(op: Written) -> None:
    attrs, data, weights = op.attrs(Conv3DAttrs), op[0], op[1]
    depth, filters_depth = data.shape[4], weights.static_shape[3]
    if depth is None or depth % filters_depth:
        raise NotWrittenError("how many groups it has is not known")
    _convolved(
        op,
        "Conv",
        [data, weights, op.op.input(2)],
        (4, 3, 0, 1, 2),
        attrs.activation,
        group=depth // filters_depth,
        strides=list(attrs.strides),
        dilations=list(attrs.dilations),
        **pads(attrs.padding, data.shape[1:4], windows_of(op.op)),
    )


def _transposed_pads(
    sizes: Sequence[int], before: Sequence[int], counts: Sequence[int], windows: Sequence[Window]
) -> dict[str, object]:
    """What is cut off the whole image of a transposed convolution, or lacks at its end."""
    rows = zip(sizes, before, counts, windows, strict=True)
    ends = [(n - 1) * w.stride + w.extent - size - first for size, first, n, w in rows]
    attributes: dict[str, object] = {"pads": [*before, *(max(end, 0) for end in ends)]}
    if min(ends) < 0:
        attributes["output_padding"] = [max(-end, 0) for end in ends]
    if any(-end >= w.stride for end, w in zip(ends, windows, strict=True)):
        raise NotWrittenError("its result is larger than its windows reach")
    return attributes


@writes("TRANSPOSE_CONV")
def _transpose_conv(op: Written) -> None:
    attrs, data = op.attrs(TransposeConvAttrs), op[_DATA]
    sizes, window = op.known(_SHAPE, "the sizes of its result"), transposed_window_of(op.op)
    before = [first for first, _ in window.pads(*sizes[1:3])]
    counts = op.sizes(data)[1:3]
    _convolved(
        op,
        "ConvTranspose",
        [data, op[_WEIGHTS], op.op.input(_BIAS)],
        (3, 0, 1, 2),
        attrs.activation,
        strides=list(attrs.strides),
        **_transposed_pads(sizes[1:3], before, counts, window[1:]),
    )


@writes("CONV_3D_TRANSPOSE")
def _transpose_conv3d(op: Written) -> None:
    attrs, data = op.attrs(Conv3DAttrs), op[_DATA]
    sizes, windows = op.known(_SHAPE, "the sizes of its result"), windows_of(op.op)
    before = pads_before(op.op, tuple(sizes[1:4]))
    _convolved(
        op,
        "ConvTranspose",
        [data, op[_WEIGHTS], op.op.input(_BIAS)],
        (4, 3, 0, 1, 2),
        attrs.activation,
        strides=list(attrs.strides),
        dilations=list(attrs.dilations),
        **_transposed_pads(sizes[1:4], before, op.sizes(data)[1:4], windows),
    )
