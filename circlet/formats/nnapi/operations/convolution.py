"""Convolutions over images."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.formats.nnapi.windows import (
    CHANNELS_FIRST,
    has_explicit_padding,
    image,
    image_result,
    quant_as,
    record_types,
    steps,
)
from circlet.ir import DType, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.words import counted

_DATA, _WEIGHTS, _BIAS = range(3)


@lowers("CONV_2D")
def _conv(call: Call) -> None:
    given = steps(call, 3, explicit=has_explicit_padding(call, 3, 3))
    is_nchw, dilations = _layout_and_dilations(call, given.end + 1)
    attrs = Conv2DAttrs(given.padding, given.strides, dilations, 1, call.activation(given.end))
    convolve(call, "CONV_2D", attrs, is_nchw=is_nchw)


@lowers("GROUPED_CONV_2D")
def _grouped(call: Call) -> None:
    given = steps(call, 3, explicit=len(call) > 9)
    groups, activation = call.whole(given.end), call.activation(given.end + 1)
    is_nchw = call.flag(given.end + 2)
    _check_groups(call, groups, 1 if is_nchw else 3)
    attrs = Conv2DAttrs(given.padding, given.strides, (1, 1), groups, activation)
    convolve(call, "CONV_2D", attrs, is_nchw=is_nchw)


@lowers("DEPTHWISE_CONV_2D")
def _depthwise(call: Call) -> None:
    given = steps(call, 3, explicit=has_explicit_padding(call, 3, 4))
    multiplier, activation = call.whole(given.end), call.activation(given.end + 1)
    is_nchw, dilations = _layout_and_dilations(call, given.end + 2)
    attrs = DepthwiseConv2DAttrs(given.padding, given.strides, dilations, multiplier, activation)
    _check_multiplier(call, multiplier, 1 if is_nchw else 3)
    convolve(call, "DEPTHWISE_CONV_2D", attrs, is_nchw=is_nchw)


def _layout_and_dilations(call: Call, index: int) -> tuple[bool, tuple[int, int]]:
    is_nchw = call.flag(index)
    if len(call) <= index + 1:
        return is_nchw, (1, 1)
    return is_nchw, (call.whole(index + 2), call.whole(index + 1))


def _check_groups(call: Call, groups: int, axis: int) -> None:
    channels, depth = _size(call[_DATA], axis), _size(call[_WEIGHTS], 3)
    if groups < 1:
        raise call.wrong("the number of groups is not positive", str(groups))
    if channels is not None and depth is not None and channels != groups * depth:
        why = f"{groups} times filters of depth {depth}, and {counted(channels, 'channel')}"
        raise call.wrong("groups do not divide the channels", why)


def _check_multiplier(call: Call, multiplier: int, axis: int) -> None:
    channels, filters = _size(call[_DATA], axis), _size(call[_WEIGHTS], 3)
    if channels is not None and filters is not None and channels * multiplier != filters:
        why = f"{counted(filters, 'filter')}, not {channels} times {multiplier}"
        raise call.wrong("the depth multiplier does not fit", why)


def _size(tensor: Tensor, axis: int) -> int | None:
    return tensor.shape[axis] if len(tensor.shape) == 4 else None


def convolve(call: Call, kind: str, attrs: object, *, is_nchw: bool) -> None:
    """Make a convolution of operands 0 to 2 in the types that records have."""
    data = image(call, call[_DATA], is_nchw)
    data, weights, dtype = record_types(call, data, call[_WEIGHTS])
    inputs: list[Tensor | None] = [data, weights, call[_BIAS]]
    image_result_of(call, kind, inputs, attrs, is_nchw, dtype)


def image_result_of(
    call: Call,
    kind: str,
    inputs: list[Tensor | None],
    attrs: object,
    is_nchw: bool,
    dtype: DType | None,
) -> None:
    """As `image_result`, by way of a result of another type of 8 bits; None for the declared."""
    if dtype is None:
        image_result(call, kind, inputs, attrs, is_nchw=is_nchw)
        return
    made = call.op(kind, inputs, attrs, dtype, quant_as(call, call.output(), dtype))
    if is_nchw:
        order = call.const(CHANNELS_FIRST, "i4")
        made = call.op("TRANSPOSE", [made, order], quant=made.quant)
    call.result("QUANTIZE", [made])
