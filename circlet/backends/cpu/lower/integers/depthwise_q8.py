"""DEPTHWISE_CONV_2D over 8-bit activations and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.conv_q8 import lower_integer_conv
from circlet.backends.cpu.lower.integers.depthwise_tiles import (
    CHANNEL_BLOCK,
    MOST_UNROLLED_TAPS,
    Blocks,
    Tiling,
    Tilings,
    joined_tilings,
    pixels_together,
    room_of,
    tiling_work,
    tilings_of,
)
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    Int64,
    activation_offset,
    bias_of,
    has_dot,
    has_pairs,
    multiplies_by_taps,
    output_bounds,
    refuses_weighted,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import Requantisation, interleaved_lanes
from circlet.backends.cpu.lower.products.windows import (
    depthwise_border,
    first_taps,
    multiplier_of,
    why_not_repeated,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.backends.cpu.tuning.knobs import Knob, always_there, joined
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.ops.requantize import scalar_quant
from circlet.target.targets import Target

_MOST_EXPANDED_BYTES = 1 << 22
_LAST_COLUMN = 31
_MOST_EACH = 3
_FEW_CHANNELS, _FEW_TAPS = 3, 9  # of which a full convolution takes less time
_RARE = 0.4  # of columns of blocks
_NO_COLUMNS = np.zeros(1, np.uint32)

Weights = npt.NDArray[np.int8] | npt.NDArray[np.int16]


class Depthwise(NamedTuple):
    """One call of `depthwise_q8`.

    Attributes:
        parts: Gives parts of the weights, int8 [h, w, channels] each.
        requantise: Parameters, given the parts of the weights and blocks of channels.
        tilings: What may be done together, the best first.
        in_strides: Bytes between images, rows and pixels of the input.
        scales: Where the scales of quantised float images stand.
        together: Neighbouring pixels that are one, of as many times the channels.
    """

    op: Op
    parts: Callable[[], tuple[Int8, ...]]
    requantise: Callable[[tuple[Int8, ...], Blocks], Requantisation]
    tilings: Sequence[Tilings]
    in_strides: tuple[int, int, int]
    flip: bool
    data: Ref
    extra: dict[str, ParamValue]
    scales: Ref = NoRef()
    together: int = 1


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


def paired_parts(weights: Int64) -> tuple[Int8, ...]:
    """Weights [h, w, channels] as a sum of parts of which two products of a column fit 16 bits.

    Activations are bytes from 0 to 255: neither those above zero of a tap and of the next but one
    below it, nor those below zero, add up to more than 128.
    """
    parts: list[Int8] = []
    while not parts or weights.any():
        part = np.zeros(weights.shape, np.int64)
        for row, taps in enumerate(weights):
            other = part[row - 2] if row > 1 else np.zeros_like(taps)
            least, most = -128 - np.minimum(other, 0), 128 - np.maximum(other, 0)
            part[row] = np.clip(taps, least, np.minimum(most, 127))
        parts.append(part.astype(np.int8))
        weights = weights - part
    return tuple(parts)


def _are_rare(parts: tuple[Int8, ...], tiling: Tiling, target: Target) -> bool:
    """Whether parts behind the first take less time than products of int16."""
    if not has_pairs(target):
        return False
    masks, width = columns_of_parts(parts, tiling), parts[0].shape[1]
    columns = np.unpackbits(masks.view(np.uint8)).sum(dtype=np.int64) * (len(parts) - 1)
    return bool(columns <= _RARE * masks.size * min(width, _LAST_COLUMN + 1))


def pack_depthwise(
    parts: Sequence[Weights], tiling: Tiling, lanes: int, *, are_paired: bool = False
) -> Weights:
    """[h, w, channels] parts to, per block, [w, groups of four rows, rows, parts, channels, 4].

    Row r of the rows done together sees the taps r places further down. Of int16 each register of
    channels has its even taps first; paired ones have those of every other row side by side.
    """
    (height, width, channels), rows = parts[0].shape, tiling.rows
    groups = -(-(height + rows - 1) // 4)
    shape = rows, len(parts), groups * 4, width, channels + CHANNEL_BLOCK
    taps = np.zeros(shape, parts[0].dtype)
    for row in range(rows):
        taps[row, :, row : row + height, :, :channels] = np.stack(parts)
    split = taps.reshape(rows, len(parts), groups, 4, width, -1).transpose(4, 2, 0, 1, 5, 3)
    if are_paired:
        split = split[..., [0, 2, 1, 3]]
    packed = []
    for start, size in tiling.blocks.starts:
        block = split[..., start + interleaved_lanes(size // lanes, lanes), :]
        if block.dtype == np.int16:
            block = np.moveaxis(block.reshape(-1, lanes, 2, 2), 3, 1)
        packed.append(block.reshape(-1))
    return np.concatenate(packed)


def pack_taps(weights: npt.NDArray[np.int16], tiling: Tiling) -> Weights:
    """[h, w, channels] to, per block, [w, h, channels]."""
    filled = np.pad(weights, [(0, 0), (0, 0), (0, CHANNEL_BLOCK)]).transpose(1, 0, 2)
    blocks = [filled[..., start : start + size] for start, size in tiling.blocks.starts]
    return np.concatenate([block.reshape(-1) for block in blocks])


def columns_of_parts(parts: tuple[Int8, ...], tiling: Tiling) -> npt.NDArray[np.uint32]:
    """For each block a bit for every column of taps where parts behind the first are not zero."""
    more = np.any(np.stack(parts)[1:], axis=(0, 1))
    masks = np.zeros(len(tiling.blocks.starts), np.uint32)
    for block, (start, size) in enumerate(tiling.blocks.starts):
        for column in np.flatnonzero(more[:, start : start + size].any(axis=1)):
            masks[block] |= np.uint32(1 << min(int(column), _LAST_COLUMN))
    return masks


def fold_input_zero(op: Op, parts: Sequence[Int8 | Int64], offset: int) -> tuple[Int64, Int64]:
    """The bias less what the input's zero point adds, and how far accumulators can get."""
    sums = weight_sums(parts)
    zero = scalar_quant(operand(op, 0))[1] + offset
    bias = bias_of(op, sums.size)
    return bias - zero * sums, np.abs(bias) + 255 * np.abs(_real(parts)).sum(axis=(0, 1))


def weight_sums(parts: Sequence[Int8 | Int64]) -> Int64:
    """The sum of each channel's weights."""
    total: Int64 = _real(parts).sum(axis=(0, 1))
    return total


def _real(parts: Sequence[Int8 | Int64]) -> Int64:
    total: Int64 = np.stack(parts).astype(np.int64).sum(axis=0)
    return total


def call_depthwise(call: Depthwise, context: Context) -> None:
    """Append the call of the kernel."""
    op, out = call.op, context.layout(call.op.outputs[0])
    window, width = window_of(op), out.width // call.together
    in_batch, in_row, in_pixel = call.in_strides
    channels = operand(op, 1).static_shape[3]
    tiling = context.choose(op, _choice(call, (out.height, width), context))
    name = _packing(call.together, tiling)
    packed = context.packed(op, name, lambda: _pack_call(call, tiling, context))
    params: dict[str, ParamValue] = {
        "in_batch": in_batch,
        "in_row": window.rows.stride * in_row,
        "in_pixel": in_pixel * call.together,
        "tap_down": window.rows.dilation * in_row,
        "tap_across": window.columns.dilation * in_pixel,
        "out_batch": out.batch_stride,
        "out_row": out.row_stride,
        "out_pixel": out.pixel_stride * call.together,
        "image_rows": out.height,
        "image_tasks": -(-out.height // tiling.rows),
        "row_pixels": width,
        "channels": channels * call.together,
        **call.extra,
    }
    half = -(-width // 2)
    if max(tiling.pixels, tiling.rest_pixels) > half:
        pixels = min(tiling.pixels, half), min(tiling.rest_pixels, half)
        smaller = tiling._replace(pixels=pixels[0], rest_pixels=pixels[1])
        context.precompile(op, _kernel(call, smaller, packed.fact))
    context.call(
        op,
        _kernel(call, tiling, packed.fact),
        params,
        (call.data, *packed.refs[:2], TensorRef(op.outputs[0]), call.scales, packed.refs[2]),
        (op.outputs[0],),
        tasks=out.batch * -(-out.height // tiling.rows),
    )


def _tiling(call: Depthwise, context: Context) -> Tiling:
    """The best tiling; for another size of the network, among those that are there for the op."""
    for family in call.tilings if context.reuses else ():
        known = context.reused(call.op, _packing(call.together, family))
        if known is None:
            continue
        for tiling in family.tilings():
            if context.has(_kernel(call, tiling, known.fact)):
                return tiling
    return next(call.tilings[0].tilings())


def _choice(call: Depthwise, size: tuple[int, int], context: Context) -> Knob[Tiling]:
    """The best tiling, and the next ones of each size of blocks."""
    window, room = window_of(call.op), room_of(context)
    families = () if context.reuses else call.tilings
    nearly = (tiling for family in families for tiling in islice(family.tilings(), _MOST_EACH))
    return Knob(
        f"depthwise_q8 {joined(size)}",
        list(dict.fromkeys([_tiling(call, context), *nearly])),
        lambda tiling: tiling_work(tiling, window, size, room),
        always_there,
    )


def _packing(together: int, tiling: Tiling | Tilings) -> str:
    """A name for the packed constants."""
    blocks = tiling.blocks
    return f"depthwise_q8 {blocks.whole} {blocks.rest} {tiling.rows} {together}"


def _kernel(call: Depthwise, tiling: Tiling, fact: tuple[int, str]) -> Kernel:
    """The kernel for a number of parts of the weights and a form of requantisation."""
    blocks, window = tiling.blocks, window_of(call.op)
    narrow = blocks.channels if blocks.channels < CHANNEL_BLOCK else 0
    tiles = (blocks.whole, tiling.pixels, blocks.rest, tiling.rest_pixels, tiling.rows)
    taps = (window.rows.size, window.columns.size, window.columns.stride, int(tiling.slides))
    arguments = (*tiles, *taps, *fact, int(call.flip), narrow, multiplier_of(call.op))
    return Kernel("depthwise_q8.h", "depthwise_q8", arguments)


def _pack_call(
    call: Depthwise, tiling: Tiling, context: Context
) -> tuple[list[np.ndarray], tuple[int, str]]:
    """Weights and requantisation parameters; the number of parts (0 for int16) and the form."""
    parts, lanes = call.parts(), context.vector_bytes // 4
    scaling = call.requantise(parts, tiling.blocks)
    parts = tuple(np.tile(part, call.together) for part in parts)
    are_paired = has_pairs(context.target)
    if are_paired:
        parts = paired_parts(_real(parts))
    if multiplies_by_taps(context.target):
        wide = pack_taps(_real(parts).astype(np.int16), tiling)
        return [wide, scaling.parameters, _NO_COLUMNS], (0, scaling.form)
    if not has_dot(context.target) and not _are_rare(parts, tiling, context.target):
        wide = pack_depthwise([_real(parts).astype(np.int16)], tiling, lanes)
        return [wide, scaling.parameters, _NO_COLUMNS], (0, scaling.form)
    packed = pack_depthwise(parts, tiling, lanes, are_paired=are_paired)
    return [packed, scaling.parameters, columns_of_parts(parts, tiling)], (len(parts), scaling.form)


def is_expanded(op: Op, target: Target) -> bool:
    """Whether a full convolution does it, over weights that are zero but on a filter's own channel.

    Over few channels few products are with zeros, and taps are not interleaved. That is less than
    the depthwise kernel saves where windows share columns, and filters fill a block.
    """
    channels, filters = operand(op, 0).static_shape[3], operand(op, 1).static_shape[3]
    if channels == filters or why_not_repeated(op) is not None:
        return channels != filters
    window, joins_taps = window_of(op), has_dot(target)
    is_few = channels <= (_FEW_CHANNELS if joins_taps or target.has("avx512f") else 1)
    few_taps = _FEW_TAPS if joins_taps and channels == 1 else MOST_UNROLLED_TAPS
    is_large = window.rows.size * window.columns.size > few_taps
    return is_few and (is_large or (joins_taps and filters < CHANNEL_BLOCK))


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return refuses_depthwise(op, target)


def refuses_depthwise(op: Op, target: Target) -> str | None:
    """Why the kernel does not take a depthwise convolution, or None."""
    reason = refuses_weighted(op, target)
    if reason is not None or not is_expanded(op, target):
        return reason
    expanded = operand(op, 1).elements * operand(op, 0).static_shape[3]
    if expanded > _MOST_EXPANDED_BYTES:
        return "a depth multiplier that is no power of two over this many channels"
    return None


def expand(weights: Int8, weight_zero: int, depth: int) -> Int8:
    """[1, h, w, filters] to [filters, h, w, depth]: zero but where a filter's own channel is."""
    _, height, width, filters = weights.shape
    full = np.full((filters, height, width, depth), weight_zero, np.int8)
    own = np.arange(filters) // (filters // depth)
    full[np.arange(filters), :, :, own] = weights[0].transpose(2, 0, 1)
    return full


def _expanded(op: Op, depth: int) -> Int8:
    return expand(signed_weights(op), weights_zero(op), depth)


def _lower(op: Op, context: Context) -> None:
    source = operand(op, 0)
    if is_expanded(op, context.target):
        depth, filters = source.static_shape[3], operand(op, 1).static_shape[3]
        lower_integer_conv(op, context, partial(_expanded, op, depth), filters)
        return
    data, lanes = context.layout(source), context.vector_bytes // 4
    offset = activation_offset(source, context.target)
    parts = partial(split_weights, op)
    together, tilings = _tilings(op, context)
    channels = operand(op, 1).static_shape[3]

    def requantise(parts: tuple[Int8, ...], blocks: Blocks) -> Requantisation:
        folded, order = fold_input_zero(op, parts, offset), blocks.order(lanes)
        if together > 1:
            order = replace(order, channels=order.channels % channels)
        return integer_requantisation(op, folded, order, context.target)

    strides = data.batch_stride, data.row_stride, data.pixel_stride
    place, bounds = first_taps(op, data).ref, output_bounds(op)
    call = Depthwise(op, parts, requantise, tilings, strides, offset != 0, place, bounds)
    call_depthwise(call._replace(together=together), context)


def _tilings(op: Op, context: Context) -> tuple[int, list[Tilings]]:
    """Neighbouring pixels that are one, and what may be done together.

    Another size of the network joins pixels only where the first one does.
    """
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    window, size, channels = window_of(op), (out.height, out.width), operand(op, 1).static_shape[3]
    has_parts = operand(op, 1).dtype is DType.UINT8
    if data.pixel_stride * multiplier_of(op) == out.pixel_stride == channels:
        together = pixels_together(window, out.width, channels, has_parts, context)
        joined = joined_tilings(window, size, channels, together, context)
        is_there = any(context.reused(op, _packing(together, family)) for family in joined)
        if together > 1 and (is_there or not context.reuses):
            return together, joined
    return 1, tilings_of(window, size, channels, context)


LOWERINGS.add(
    Lowering(
        "DEPTHWISE_CONV_2D",
        "depthwise_q8",
        _refuses,
        _lower,
        depthwise_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.INT8,
    )
)
