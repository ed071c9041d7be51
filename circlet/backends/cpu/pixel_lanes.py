"""Which pooling the kernel of `pool_pixels.h` takes, whose registers hold neighbouring pixels."""

from __future__ import annotations

from math import prod

from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.pool import pool_window_of

_TALLEST, _MOST_TAPS = 16, 64  # of a window either way, and in all: taps are unrolled
_STEEPEST = 2  # pixels between windows
_BLOCK = 4  # rows of the output that are made at once
# Elements of a row of the output: fewer leave too much of a register empty. Rows that are read
# where they are cost less.
_FEWEST, _FEWEST_IN_PLACE = 16, 12
_MOST_CHANNELS = 8  # beyond them, registers hold channels
_RING_BYTES = 1 << 15  # of a first-level cache
_LANES = 16  # of the widest registers


def has_pixel_lanes(op: Op) -> bool:
    """Whether the kernel takes an operator, once its pixels are dense."""
    source, result, window = operand(op, 0), op.outputs[0], pool_window_of(op)
    taps = window.rows.size, window.columns.size
    if source.dtype is not DType.FLOAT32 or max(taps) > _TALLEST or prod(taps) > _MOST_TAPS:
        return False
    if max(window.rows.stride, window.columns.stride) > _STEEPEST:
        return False
    channels = source.static_shape[3]
    if channels > (_MOST_CHANNELS if window.columns.stride == 1 else 1):
        return False
    fewest = _FEWEST_IN_PLACE if reads_image(op) else _FEWEST
    return result.static_shape[2] * channels >= fewest and scratch_bytes(op) <= _RING_BYTES


def reads_image(op: Op) -> bool:
    """Whether rows are read where they are: no window leaves the image, nor a register a row."""
    window = pool_window_of(op)
    pads = window.pads(*operand(op, 0).static_shape[1:3])
    return not any(map(any, pads)) and window.columns.size >= window.columns.stride


def phase_elements(op: Op) -> int:
    """Elements of a row of the ring, for each pixel of a stride: whole registers."""
    source, result, window = operand(op, 0), op.outputs[0], pool_window_of(op)
    height, width, channels = source.static_shape[1:]
    size, stride, _ = window.columns
    _, (left, _) = window.pads(height, width)
    windows = -(-result.static_shape[2] * channels // _LANES) * _LANES
    reach = (size - 1) // stride * channels
    wanted = max(windows + reach, ((left + width - 1) // stride + 1) * channels)
    return -(-wanted // _LANES) * _LANES


def ring_rows(op: Op) -> int:
    """Rows of the ring: of each row of a block of the output, or those that their windows have."""
    if reads_image(op):
        return 0
    if op.kind == "MAX_POOL_2D":
        return _BLOCK
    rows = pool_window_of(op).rows
    return 1 << (rows.size + (_BLOCK - 1) * rows.stride - 1).bit_length()


def scratch_bytes(op: Op) -> int:
    """Bytes of the ring and a row more, and of what windows hold unless maxima are wanted."""
    rows = (ring_rows(op) + 1) * pool_window_of(op).columns.stride
    return (rows + (0 if op.kind == "MAX_POOL_2D" else 2)) * phase_elements(op) * 4
