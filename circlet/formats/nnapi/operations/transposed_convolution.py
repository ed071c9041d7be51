"""Transposed convolutions."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call, NotLoweredError
from circlet.formats.nnapi.operations.convolution import image_result_of
from circlet.formats.nnapi.table import lowers
from circlet.formats.nnapi.windows import CHANNELS_LAST, Steps, image, record_types, steps
from circlet.ir import DType, Tensor
from circlet.ops.arithmetic import AddAttrs, MulAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.transpose_conv import TransposeConvAttrs

_IMPLICIT, _EXPLICIT = 9, 11


@lowers("TRANSPOSE_CONV_2D")
def _transpose_conv(call: Call) -> None:
    if len(call) not in (_IMPLICIT, _EXPLICIT):
        raise call.wrong("the operation has 9 or 11 inputs", f"{len(call)} are given")
    explicit = len(call) == _EXPLICIT
    given = steps(call, 3 if explicit else 4, explicit=explicit)
    is_nchw = call.flag(given.end + 1)
    data, weights, bias = image(call, call[0], is_nchw), call[1], call[2]
    sizes = _explicit_sizes(call, data, given) if explicit else _given_sizes(call, is_nchw)
    attrs = TransposeConvAttrs(_padding(given), given.strides, call.activation(given.end))
    data, weights, dtype = record_types(call, data, weights)
    inputs: list[Tensor | None] = [sizes, weights, data, bias]
    image_result_of(call, "TRANSPOSE_CONV", inputs, attrs, is_nchw, dtype)


@lowers("TRANSPOSE_CONV_EX")
def _transpose_conv_ex(call: Call) -> None:
    given = steps(call, 3, explicit=False)
    attrs = TransposeConvAttrs(given.padding, given.strides)
    call.result("TRANSPOSE_CONV", [call[0], call[1], call[2]], attrs)


def _padding(given: Steps) -> Padding:
    """Amounts behind the image that are below zero say how large the result is, and no more."""
    if given.padding == SAME_UPPER:
        return SAME_UPPER
    return tuple((before, max(0, after)) for before, after in given.amounts)


def _given_sizes(call: Call, is_nchw: bool) -> Tensor:
    """The sizes of the result that the operation states, channels last."""
    sizes = call[3]
    if not is_nchw:
        return sizes
    if sizes.data is not None:
        if sizes.data.size != len(CHANNELS_LAST):
            raise call.wrong("the sizes of the result must be four", str(sizes.data.tolist()))
        return call.const(sizes.data.reshape(-1)[list(CHANNELS_LAST)], "i4")
    return call.op("GATHER", [sizes, call.const(CHANNELS_LAST, "i4")])


def _explicit_sizes(call: Call, data: Tensor, given: Steps) -> Tensor:
    """The sizes that pixels, strides, filters and paddings make: (n - 1) * stride + taps - pads."""
    filters, *taps, _ = _weight_sizes(call)
    windows = zip(taps, given.strides, given.amounts, strict=True)
    changes = [size - stride - before - after for size, stride, (before, after) in windows]
    factors, terms = [1, *given.strides, 0], [0, *changes, filters]
    if len(data.shape) == 4 and None not in data.shape:
        rows = zip(data.static_shape, factors, terms, strict=True)
        return call.const([size * factor + term for size, factor, term in rows], "i4")
    sizes = call.op("SHAPE", [data], dtype=DType.INT32)
    scaled = call.op("MUL", [sizes, call.const(factors, "i4")], MulAttrs())
    return call.op("ADD", [scaled, call.const(terms, "i4")], AddAttrs())


def _weight_sizes(call: Call) -> tuple[int, ...]:
    weights = call[1]
    if len(weights.shape) != len(CHANNELS_LAST) or None in weights.shape:
        raise NotLoweredError("the sizes of its weights are not known")
    return weights.static_shape
