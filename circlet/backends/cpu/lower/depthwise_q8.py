"""DEPTHWISE_CONV_2D over 8-bit activations and weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from circlet.backends.cpu.layout import Border
from circlet.backends.cpu.lower.conv_q8 import conv_border, lower_integer_conv
from circlet.backends.cpu.lower.depthwise_tiles import CHANNEL_BLOCK, Tiling, choose_tiling
from circlet.backends.cpu.lower.q8 import (
    Int8,
    Int64,
    Scaling,
    activation_offset,
    bias_of,
    fixed_scaling,
    output_bounds,
    refuses_weighted,
    signed_weights,
    woven_order,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.ops.requantize import scalar_quant

_MOST_EXPANDED_BYTES = 1 << 22


@dataclass(frozen=True)
class Depthwise:
    """One call of `depthwise_q8`.

    Attributes:
        parts: Parts of the weights, int8 [h, w, channels] each.
        tiling: What is done together.
        in_strides: Bytes between images, rows and pixels of the input.
        scales: Where the scales of quantised float images stand.
    """

    op: Op
    parts: tuple[Int8, ...]
    tiling: Tiling
    in_strides: tuple[int, int, int]
    flip: bool
    data: Ref
    extra: dict[str, ParamValue]
    scales: Ref = field(default_factory=NoRef)


def split_weights(op: Op) -> tuple[Int8, ...]:
    """Weights [h, w, channels] less their zero point, as a sum of int8 arrays: 255 needs three."""
    weights = operand(op, 1)
    zero = scalar_quant(weights)[1] if weights.dtype is DType.UINT8 else 0
    rest = np.asarray(weights.data)[0].astype(np.int16) - zero
    parts: list[Int8] = []
    while not parts or rest.any():
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    return tuple(parts)


def pack_depthwise(parts: tuple[Int8, ...], tiling: Tiling, lanes: int) -> Int8:
    """[h, w, channels] parts to, per block, [w, groups of four rows, rows, parts, channels, 4].

    Row r of the rows done together sees the taps r places further down.
    """
    (height, width, channels), rows = parts[0].shape, tiling.rows
    groups = -(-(height + rows - 1) // 4)
    taps = np.zeros((rows, len(parts), groups * 4, width, channels + CHANNEL_BLOCK), np.int8)
    for row in range(rows):
        taps[row, :, row : row + height, :, :channels] = np.stack(parts)
    split = taps.reshape(rows, len(parts), groups, 4, width, -1).transpose(4, 2, 0, 1, 5, 3)
    packed = []
    for start, size in tiling.blocks.starts:
        order = start + woven_order(size // lanes, lanes)
        packed.append(split[..., order, :].reshape(-1))
    return np.concatenate(packed)


def fold_input_zero(op: Op, parts: tuple[Int8, ...], offset: int) -> tuple[Int64, Int64]:
    """The bias less what the input's zero point adds, and how far accumulators can get."""
    sums = weight_sums(parts)
    zero = scalar_quant(operand(op, 0))[1] + offset
    bias = bias_of(op, sums.size)
    return bias - zero * sums, np.abs(bias) + 255 * np.abs(_real(parts)).sum(axis=(0, 1))


def weight_sums(parts: tuple[Int8, ...]) -> Int64:
    """The sum of each channel's weights."""
    total: Int64 = _real(parts).sum(axis=(0, 1))
    return total


def _real(parts: tuple[Int8, ...]) -> Int64:
    total: Int64 = np.stack(parts).astype(np.int64).sum(axis=0)
    return total


def call_depthwise(call: Depthwise, scaling: Scaling, context: Context) -> None:
    """Append the call of the kernel."""
    op, out = call.op, context.layout(call.op.outputs[0])
    window = window_of(op)
    in_batch, in_row, in_pixel = call.in_strides
    height, width, channels = call.parts[0].shape
    tiling, blocks = call.tiling, call.tiling.blocks
    params: dict[str, ParamValue] = {
        "in_batch": in_batch,
        "in_row": window.rows.stride * in_row,
        "in_pixel": in_pixel,
        "tap_down": window.rows.dilation * in_row,
        "tap_across": window.columns.dilation * in_pixel,
        "out_batch": out.batch_stride,
        "out_row": out.row_stride,
        "out_pixel": out.pixel_stride,
        "image_rows": out.height,
        "image_tasks": -(-out.height // tiling.rows),
        "row_pixels": out.width,
        "channels": channels,
        **call.extra,
    }
    narrow = channels if channels < CHANNEL_BLOCK else 0
    tiles = (blocks.whole, tiling.pixels, blocks.rest, tiling.rest_pixels, tiling.rows)
    taps = (height, width, window.columns.stride, int(tiling.slides))
    arguments = (*tiles, *taps, len(call.parts), scaling.form, int(call.flip), narrow)
    packed = pack_depthwise(call.parts, tiling, context.vector_bytes // 4)
    context.call(
        op,
        Kernel("depthwise_q8.h", "depthwise_q8", arguments),
        params,
        (
            call.data,
            context.constant(packed),
            context.constant(scaling.records),
            TensorRef(op.outputs[0]),
            call.scales,
        ),
        (op.outputs[0],),
        tasks=out.batch * -(-out.height // tiling.rows),
    )


def is_expanded(op: Op) -> bool:
    """Whether channels have several filters each, so that a full convolution does it."""
    return operand(op, 1).static_shape[3] != operand(op, 0).static_shape[3]


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_depthwise(op, target)


def refuses_depthwise(op: Op, target: Target) -> str | None:
    """Why the kernel does not take a depthwise convolution, or None."""
    reason = refuses_weighted(op, target)
    if reason is not None or not is_expanded(op):
        return reason
    expanded = operand(op, 1).elements * operand(op, 0).static_shape[3]
    if expanded > _MOST_EXPANDED_BYTES:
        return "a depth multiplier above 1 over this many channels"
    return None


def expand(weights: Int8, weight_zero: int, depth: int) -> Int8:
    """[1, h, w, filters] to [filters, h, w, depth]: zero but where a filter's own channel is."""
    _, height, width, filters = weights.shape
    full = np.full((filters, height, width, depth), weight_zero, np.int8)
    own = np.arange(filters) // (filters // depth)
    full[np.arange(filters), :, :, own] = weights[0].transpose(2, 0, 1)
    return full


def _lower(op: Op, context: Context) -> None:
    source = operand(op, 0)
    if is_expanded(op):
        weights, zero = signed_weights(op)
        full = expand(weights, zero, source.static_shape[3])
        lower_integer_conv(op, context, full, zero)
        return
    data, lanes = context.layout(source), context.vector_bytes // 4
    border = conv_border(op).get(0, Border())
    start = -(border.top * data.row_stride + border.left * data.pixel_stride)
    offset = activation_offset(source, context.target)
    parts = split_weights(op)
    channels = parts[0].shape[2]
    bias, reach = fold_input_zero(op, parts, offset)
    out = context.layout(op.outputs[0])
    size = out.height, out.width
    tiling = choose_tiling(window_of(op), size, channels, len(parts), context)
    scaling = fixed_scaling(op, bias, reach, tiling.blocks.slots(lanes))
    strides = data.batch_stride, data.row_stride, data.pixel_stride
    place = TensorRef(source, start)
    call = Depthwise(op, parts, tiling, strides, offset != 0, place, output_bounds(op))
    call_depthwise(call, scaling, context)


LOWERINGS.add(
    Lowering(
        "DEPTHWISE_CONV_2D",
        "depthwise_q8",
        _refuses,
        _lower,
        conv_border,
        strided_inputs=True,
        strided_output=True,
    )
)
