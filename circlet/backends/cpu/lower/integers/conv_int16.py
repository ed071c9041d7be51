"""Depthwise and transposed convolutions of int16 activations, as calls of `conv_int.h`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.sum_int import (
    bounds,
    column_block,
    column_parameters,
    why_not_int16,
)
from circlet.backends.cpu.lower.views import image_strides
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand
from circlet.ops.requantization import requantization_of
from circlet.ops.requantize import quantize_multipliers
from circlet.ops.transpose_conv import transposed_window_of
from circlet.ops.weighted import output_factors
from circlet.target.targets import Target

Int16 = npt.NDArray[np.int16]
_OPERANDS = {"TRANSPOSE_CONV": (2, 1, 3)}


@dataclass(frozen=True)
class _Walk:
    """How taps meet pixels, down and across, in the terms of `conv_int.h`."""

    step: tuple[int, int]
    tap: tuple[int, int]
    first: tuple[int, int]
    up: tuple[int, int] = (1, 1)


def _operands(op: Op) -> tuple[Tensor, Tensor, Tensor | None]:
    data, weights, bias = _OPERANDS.get(op.kind, (0, 1, 2))
    return operand(op, data), operand(op, weights), op.input(bias)


def _refuses(op: Op, target: Target) -> str | None:
    reason = why_not_int16(op, *_operands(op))
    if reason is not None:
        return reason
    data, weights, _ = _operands(op)
    if op.kind == "TRANSPOSE_CONV":
        return None if operand(op, 0).is_constant else "the output shape must be constant"
    return "a depth multiplier" if weights.shape[3] != data.shape[3] else None


def _walk(window: Window2D, height: int, width: int) -> _Walk:
    (top, _), (left, _) = window.pads(height, width)
    return _Walk(
        (window.rows.stride, window.columns.stride),
        (window.rows.dilation, window.columns.dilation),
        (-top, -left),
    )


def _transposed_walk(op: Op) -> _Walk:
    window = transposed_window_of(op)
    _, height, width, _ = op.outputs[0].static_shape
    (top, _), (left, _) = window.pads(height, width)
    strides = (window.rows.stride, window.columns.stride)
    return _Walk((1, 1), (-1, -1), (top, left), strides)


def _pack(weights: Int16, width: int) -> Int16:
    """[channels, taps, depth] as blocks of `width` channels per element of a sum."""
    padded = np.pad(weights, ((0, -len(weights) % width), (0, 0), (0, 0)))
    blocks = padded.reshape(-1, width, padded.shape[1] * padded.shape[2])
    return np.ascontiguousarray(blocks.swapaxes(1, 2))


def _call(op: Op, context: Context, weights: Int16, params: dict[str, ParamValue]) -> None:
    data, filters, bias = _operands(op)
    result = op.outputs[0]
    columns = weights.shape[0]
    vectors, width = column_block(context, columns)
    wide = requantization_of(op).accumulator_bits == 64
    offsets = None if bias is None else np.asarray(bias.data, np.int64).reshape(-1)
    factors = quantize_multipliers(output_factors(data, filters, result))
    parameters = column_parameters(columns, width, offsets, factors, wide=wide)
    blocks = -(-columns // width)
    params |= {"columns": columns, "blocks": blocks, "depth": weights.shape[2], **bounds(op)}
    packed = context.constant(_pack(weights, width))
    by_channel = int(op.kind == "DEPTHWISE_CONV_2D")
    kernel = Kernel("conv_int.h", "conv_int", (vectors, by_channel, int(wide)))
    operands = (TensorRef(data), packed, context.constant(parameters), TensorRef(result))
    rows = params["out_height"]
    assert isinstance(rows, int)
    tasks = result.static_shape[0] * rows * blocks
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _image_params(op: Op, context: Context, walk: _Walk, taps: Window2D) -> dict[str, ParamValue]:
    data, result = context.layout(_operands(op)[0]), context.layout(op.outputs[0])
    return {
        **image_strides("in", data),
        **image_strides("out", result),
        "in_height": data.height,
        "in_width": data.width,
        "out_height": result.height,
        "out_width": result.width,
        "tap_height": taps.rows.size,
        "tap_width": taps.columns.size,
        "step": walk.step,
        "tap": walk.tap,
        "first": walk.first,
        "up": walk.up,
    }


def _lower_image(op: Op, context: Context) -> None:
    data, filters, _ = _operands(op)
    stored = np.asarray(filters.data, np.int16)
    if op.kind == "TRANSPOSE_CONV":
        window, walk = transposed_window_of(op), _transposed_walk(op)
    else:
        window = window_of(op)
        walk = _walk(window, *data.static_shape[1:3])
    if op.kind == "DEPTHWISE_CONV_2D":
        weights = stored.reshape(-1, stored.shape[3], 1).swapaxes(0, 1)
    else:
        weights = stored.reshape(stored.shape[0], -1, stored.shape[3])
    _call(op, context, weights, _image_params(op, context, walk, window))


for _kind in ("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_int16",
            _refuses,
            _lower_image,
            strided_inputs=True,
            strided_output=True,
            rank=Rank.INT16,
        )
    )
