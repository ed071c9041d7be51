"""CONV_3D_TRANSPOSE in the terms of operators that have kernels."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ops.conv3d import Conv3DAttrs, pads_before, windows_of
from circlet.ops.decomposition import Parts
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import Window
from circlet.ops.operands import known_ints, operand
from circlet.ops.requantize import activation_of

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


def transposed_parts(op: Op) -> list[Op]:
    """Products with all taps where windows do not meet; else a CONV_3D over spread elements.

    Weights are constant and sizes are known; otherwise there are no parts.
    """
    sizes, weights, data = (
        known_ints(operand(op, _SHAPE)),
        operand(op, _WEIGHTS),
        operand(op, _DATA),
    )
    bias = op.input(_BIAS)
    if sizes is None or weights.data is None or None in data.shape or 0 in (*sizes, *data.shape):
        return []
    if bias is not None and bias.data is None:
        return []
    windows, before = windows_of(op), pads_before(op, sizes[1:4])
    whole = tuple(n * w.stride for n, w in zip(data.static_shape[1:4], windows, strict=True))
    meets = any(window.extent != window.stride for window in windows) or any(before)
    if not meets and whole == sizes[1:4]:
        return _blocks(op, sizes)
    return _between_zeros(op, sizes, windows, before)


def _blocks(op: Op, sizes: tuple[int, ...]) -> list[Op]:
    """Each element makes a block of its own."""
    parts, data = Parts(op), operand(op, _DATA)
    weights, bias = operand(op, _WEIGHTS).data, op.input(_BIAS)
    assert weights is not None
    deep, tall, wide, filters, channels = weights.shape
    given: list[Tensor | None] = [data, parts.constant(weights.reshape(-1, channels))]
    if bias is not None and bias.data is not None:
        given.append(parts.constant(np.tile(bias.data.reshape(-1), deep * tall * wide)))
    attrs = FullyConnectedAttrs(activation=activation_of(op), keep_num_dims=True)
    made = parts.make("FULLY_CONNECTED", given, attrs)
    batch, depth, height, width, _ = data.static_shape
    shape = (batch * depth, height, width, deep, tall, wide * filters)
    order = parts.constant(np.array([0, 3, 1, 4, 2, 5], np.int32))
    turned = parts.make("TRANSPOSE", [parts.reshape(made, shape), order])
    parts.reshape(turned, sizes, op.outputs[0])
    return parts.ops


def _between_zeros(
    op: Op, sizes: tuple[int, ...], windows: tuple[Window, ...], before: tuple[int, ...]
) -> list[Op]:
    """A convolution of the elements with zeros between, by turned windows."""
    counts = operand(op, _DATA).static_shape[1:4]
    amounts = tuple(
        (w.extent - 1 - first, size + first - ((count - 1) * w.stride + 1))
        for w, first, size, count in zip(windows, before, sizes[1:4], counts, strict=True)
    )
    weights = operand(op, _WEIGHTS).data
    if weights is None or min(min(pair) for pair in amounts) < 0:
        return []
    parts, given = Parts(op), op.attributes(Conv3DAttrs)
    turned = parts.constant(weights[::-1, ::-1, ::-1].swapaxes(3, 4))
    spread = _spread(parts, operand(op, _DATA), given.strides)
    attrs = Conv3DAttrs(amounts, (1, 1, 1), given.dilations, given.activation)
    parts.make("CONV_3D", [spread, turned, op.input(_BIAS)], attrs, op.outputs[0])
    return parts.ops


def _spread(parts: Parts, data: Tensor, strides: tuple[int, ...]) -> Tensor:
    """A volume with an element in place of each `strides`, and zeros between."""
    for axis, stride in enumerate(strides, 1):
        if stride == 1:
            continue
        shape = list(data.static_shape)
        rows = parts.reshape(data, [prod(shape[: axis + 1]), 1, prod(shape[axis + 1 :])])
        table = parts.constant(np.array([(0, 0), (0, stride - 1), (0, 0)], np.int32))
        shape[axis] *= stride
        whole = parts.reshape(parts.make("PAD", [rows, table]), shape)
        shape[axis] -= stride - 1
        begin = parts.constant(np.zeros(len(shape), np.int32))
        data = parts.make("SLICE", [whole, begin, parts.constant(np.array(shape, np.int32))])
    return data
