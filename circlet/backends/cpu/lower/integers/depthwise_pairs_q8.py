"""DEPTHWISE_CONV_2D over 8-bit activations and weights, on AVX2 and SSE without dot products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.depthwise_q8 import (
    fold_input_zero,
    is_expanded,
    refuses_depthwise,
)
from circlet.backends.cpu.lower.integers.q8 import Int64, has_pairs, output_bounds
from circlet.backends.cpu.lower.integers.requantisation import ChannelOrder
from circlet.backends.cpu.lower.products.windows import (
    depthwise_border,
    first_taps,
    multiplier_of,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.backends.cpu.tuning.knobs import Knob, joined
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand
from circlet.ops.requantize import scalar_quant
from circlet.target.targets import Target

_BLOCK = 16
_FOUR = 4
_LANE_BYTES = 16
_CHUNK = 64
_MOST_PRODUCTS = 40  # quads times rows, all of them unrolled
_MOST_SCRATCH_BYTES = 1 << 16
_MOST_SUMS = 8
_HELD_SUMS = 6  # more are in memory at times
_MOST_SIZE = 128  # of weights: two of them times int8 fit 16 bits
_FLIPPED = 0xFF

# Instructions: of a product and of the weights of a quad, of a sum's requantisation, of a register
# of quads, of a tile, and of a sum that is not held in a register.
_PRODUCT, _WEIGHT_LOADS, _REQUANTISE, _INTERLEAVE, _TILE, _SPILL = 4, 2, 4, 9, 6, 6

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Quads:
    """How the taps of a window fall into fours, where so many rows of outputs are done together.

    Attributes:
        window: The window.
        rows: Rows of outputs, 1 or 2.
    """

    window: Window2D
    rows: int

    @property
    def height(self) -> int:
        """Rows of taps that the rows of outputs see."""
        return self.window.rows.size + self.rows - 1

    def groups(self) -> Iterator[tuple[int, int]]:
        """The first row of taps of each group, and how many columns its quads have."""
        for first in range(0, self.height, _FOUR):
            yield first, {1: 4, 2: 2}.get(self.height - first, 1)

    def taps(self) -> Iterator[list[tuple[int, int]]]:
        """Row and column of the four taps of each quad; some are beyond the window."""
        for first, columns in self.groups():
            for column in range(0, self.window.columns.size, columns):
                yield [(first + i // columns, column + i % columns) for i in range(_FOUR)]

    @property
    def count(self) -> int:
        """Quads of a window."""
        return len(list(self.taps()))

    @property
    def scratch_bytes(self) -> int:
        """What quads of two chunks of pixels take."""
        columns = self.window.columns
        pitch = _CHUNK + (columns.size - 1) * columns.dilation // columns.stride + 5
        return 2 * len(list(self.groups())) * columns.stride * _FOUR * pitch * _LANE_BYTES


class Tiling(NamedTuple):
    """What is done together.

    Attributes:
        rows: Rows of outputs, 1 or 2.
        tile: Registers of neighbouring pixels of each row.
        rest: The same at the end of a row.
    """

    rows: int
    tile: int
    rest: int


def _refuses(op: Op, target: Target) -> str | None:
    if not has_pairs(target):
        return "the target has dot products of bytes, or no products of them at all"
    if target.has("avx512f"):
        return "rows of outputs are short beside registers of four pixels"
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    reason = refuses_depthwise(op, target)
    if reason is not None:
        return reason
    if is_expanded(op, target):
        return "a full convolution takes less time"
    quads = Quads(window_of(op), 1)
    if quads.count > _MOST_PRODUCTS or quads.scratch_bytes > _MOST_SCRATCH_BYTES:
        return "a window this large"
    return None


def _tilings(window: Window2D, size: tuple[int, int], context: Context) -> list[Tiling]:
    """All that fit, the least predicted time first."""
    shares = size[0] > 1 and window.rows.stride == window.rows.dilation
    vectors = _chunk_vectors(size[1], context.vector_bytes)
    fitting = [
        Tiling(rows, tile, vectors % tile or tile)
        for rows in ((1, 2) if shares else (1,))
        for tile in range(1, min(_MOST_SUMS // rows, vectors) + 1)
        if Quads(window, rows).count * rows <= _MOST_PRODUCTS
    ]
    return sorted(fitting, key=lambda tiling: _work(tiling, window, size, context.vector_bytes))


def _chunk_vectors(width: int, vector_bytes: int) -> int:
    """Registers of neighbouring pixels of a chunk of a row."""
    chunk = -(-width // -(-width // _CHUNK))
    return -(-chunk // (vector_bytes // _LANE_BYTES))


def _work(tiling: Tiling, window: Window2D, size: tuple[int, int], vector_bytes: int) -> float:
    """Predicted instructions for four channels of an image."""
    quads, vectors = Quads(window, tiling.rows), _chunk_vectors(size[1], vector_bytes)
    groups = len(list(quads.groups()))
    tiles = [tiling.tile] * (vectors // tiling.tile) + [tiling.rest] * (vectors % tiling.tile > 0)
    chunk = groups * window.columns.stride * vectors * _INTERLEAVE
    for tile in tiles:
        sums = tiling.rows * tile
        products = quads.count * tiling.rows * (_PRODUCT * tile + _WEIGHT_LOADS)
        chunk += products + _REQUANTISE * sums + _SPILL * max(0, sums - _HELD_SUMS) + _TILE
    return chunk * -(-size[1] // _CHUNK) * -(-size[0] // tiling.rows)


def channel_starts(channels: int) -> list[int]:
    """The first channel of each block of 16; the last block ends with the last channel."""
    if channels < _BLOCK:
        return [0]
    return [min(start, channels - _BLOCK) for start in range(0, channels, _BLOCK)]


def _order(channels: int, lanes: int) -> ChannelOrder:
    """Four channels in every 128 bits of a register, four registers for each block."""
    fours = np.add.outer(channel_starts(channels), np.arange(_BLOCK)).reshape(-1, 1, _FOUR)
    order = np.broadcast_to(fours, (len(fours), lanes // _FOUR, _FOUR)).reshape(-1)
    return ChannelOrder(order, order.size, lanes)


def split_sizes(weights: Int64) -> list[Int64]:
    """Weights as a sum of parts from -128 to 128."""
    parts = [np.clip(weights, -_MOST_SIZE, _MOST_SIZE)]
    rest = weights - parts[0]
    return [*parts, rest] if rest.any() else parts


def flipped_sum(parts: list[Int64]) -> Int64:
    """What flipping the activations of negative weights takes off the sum of each channel."""
    total: Int64 = sum(np.maximum(-part, 0).sum(axis=(0, 1)) for part in parts)
    return total


def pack_pairs(parts: list[Int64], quads: Quads, flip: int, lanes: int) -> tuple[Bytes, Bytes]:
    """Weights [h, w, channels], and which fours of each block have a second part.

    Weights become, for each block of 16 channels, [fours, parts, quads, rows, 2, bytes of a
    register]: what flips activations, then sizes.
    """
    height, width, channels = parts[0].shape
    taps = list(quads.taps())
    rows = 1 + max(row for quad in taps for row, _ in quad)
    columns = 1 + max(column for quad in taps for _, column in quad)
    padded = np.zeros((len(parts), quads.rows, rows + 1, columns, max(channels, _BLOCK)), np.int64)
    for row in range(quads.rows):
        padded[:, row, row : row + height, :width, :channels] = np.stack(parts)
    at = np.array(taps).transpose(2, 0, 1)
    chosen = padded[:, :, at[0], at[1]]  # [parts, rows, quads, 4, channels]
    blocks = chosen[..., np.add.outer(channel_starts(channels), np.arange(_BLOCK))]
    fours = blocks.reshape(*blocks.shape[:-1], _FOUR, _FOUR)
    ordered = fours.transpose(
        4, 5, 0, 2, 1, 6, 3
    )  # [blocks, fours, parts, quads, rows, channel, tap]
    flips = np.where(ordered < 0, _FLIPPED ^ flip, flip)
    lane = np.stack([flips, np.abs(ordered)], axis=5).astype(np.uint8)
    lane = lane.reshape(*lane.shape[:6], 1, _LANE_BYTES)
    packed = np.broadcast_to(lane, (*lane.shape[:6], lanes // _FOUR, _LANE_BYTES))
    more = ordered[:, :, 1:].any(axis=(2, 3, 4, 5, 6))
    masks = (more << np.arange(_FOUR)).sum(axis=1).astype(np.uint32)
    return packed.reshape(-1), masks


def _pack(op: Op, tiling: Tiling, context: Context) -> tuple[list[np.ndarray], tuple[int, str]]:
    """Weights, requantisation parameters, and fours with more; number of parts, and the form."""
    weights, data = operand(op, 1), operand(op, 0)
    is_unsigned, lanes = data.dtype is DType.UINT8, context.vector_bytes // 4
    zero = scalar_quant(weights)[1] if weights.dtype is DType.UINT8 else 0
    parts = split_sizes(np.asarray(weights.data)[0].astype(np.int64) - zero)
    bias, reach = fold_input_zero(op, parts, -128 if is_unsigned else 0)
    folded = bias + flipped_sum(parts), reach
    order = _order(bias.size, lanes)
    scaling = integer_requantisation(op, folded, order, context.target)
    quads = Quads(window_of(op), tiling.rows)
    packed, more = pack_pairs(parts, quads, 0x80 if is_unsigned else 0, lanes)
    return [packed, scaling.parameters, more], (len(parts), scaling.form)


def _packing(tiling: Tiling) -> str:
    return f"depthwise_pairs_q8 {tiling.rows}"


def _kernel(op: Op, tiling: Tiling, fact: tuple[int, str]) -> Kernel:
    window, channels = window_of(op), op.outputs[0].static_shape[3]
    columns, (parts, form) = window.columns, fact
    taps = window.rows.size, columns.size, columns.stride, columns.dilation
    narrow = channels if channels < _BLOCK else 0
    arguments = (*taps, *tiling, parts, form, narrow, multiplier_of(op))
    return Kernel("depthwise_pairs_q8.h", "depthwise_pairs_q8", arguments)


def _is_there(op: Op, context: Context, tiling: Tiling) -> bool:
    known = context.reused(op, _packing(tiling))
    return known is not None and context.has(_kernel(op, tiling, known.fact))


def _params(op: Op, tiling: Tiling, data: Layout, out: Layout) -> dict[str, ParamValue]:
    window = window_of(op)
    return {
        "in_batch": data.batch_stride,
        "in_row": window.rows.stride * data.row_stride,
        "in_pixel": data.pixel_stride,
        "tap_down": window.rows.dilation * data.row_stride,
        "out_batch": out.batch_stride,
        "out_row": out.row_stride,
        "out_pixel": out.pixel_stride,
        "image_rows": out.height,
        "image_tasks": -(-out.height // tiling.rows),
        "row_pixels": out.width,
        "channels": out.channels,
        **output_bounds(op),
    }


def _lower(op: Op, context: Context) -> None:
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    window = window_of(op)
    size = out.height, out.width
    knob = Knob(
        f"depthwise_pairs_q8 {joined(size)}",
        _tilings(window, size, context),
        lambda tiling: _work(tiling, window, size, context.vector_bytes),
        partial(_is_there, op, context),
    )
    tiling = context.choose(op, knob)
    packed = context.packed(op, _packing(tiling), lambda: _pack(op, tiling, context))
    weights, parameters, more = packed.refs
    context.call(
        op,
        _kernel(op, tiling, packed.fact),
        _params(op, tiling, data, out),
        (first_taps(op, data).ref, weights, parameters, TensorRef(op.outputs[0]), more),
        (op.outputs[0],),
        tasks=out.batch * -(-out.height // tiling.rows),
        scratch_bytes=Quads(window, tiling.rows).scratch_bytes,
    )


LOWERINGS.add(
    Lowering(
        "DEPTHWISE_CONV_2D",
        "depthwise_pairs_q8",
        _refuses,
        _lower,
        depthwise_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.TRANSFORM,
    )
)
