"""Chooses what the 8-bit depthwise kernel does together: channels, rows and pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.integers.q8 import has_dot, has_pairs, multiplies_by_taps
from circlet.backends.cpu.lower.integers.requantisation import ChannelOrder, interleaved_lanes
from circlet.backends.cpu.lowering import Context
from circlet.ops.geometry import Window, Window2D

CHANNEL_BLOCK = 16
_BLOCK_SIZES = (64, 32, 16)
_MOST_PIXELS = 8
_MOST_SUMS_OF_A_ROW = 20  # more leave too few registers for the columns of one row
_INT16_SUMS = 16  # with products of int16 on x86: some are in memory, as operands of additions
MOST_UNROLLED_TAPS = 32
_MOST_COLUMNS_APART = 3
_PIXELS_APART = (2, 1, 3)
_REQUANTISE = 8
_PARAMETER_LOADS = 4
_WIDEN, _TAP = 1.0, 1.25  # by taps, for a register of channels


class Blocks(NamedTuple):
    """How channels fall into blocks: whole ones, then one that ends with the last channel.

    Attributes:
        channels: Channels.
        whole: Channels of a whole block, or 0 where there is none.
        rest: Channels of the last block, or 0 where it is not needed.
    """

    channels: int
    whole: int
    rest: int

    @property
    def starts(self) -> list[tuple[int, int]]:
        """First channel and size of each block."""
        even = self.channels // self.whole * self.whole if self.whole else 0
        starts = [(start, self.whole) for start in range(0, even, self.whole or 1)]
        return starts + ([(max(self.channels - self.rest, 0), self.rest)] if self.rest else [])

    def order(self, lanes: int) -> ChannelOrder:
        """Channels block by block, interleaved as `q8_store_tile` packs them."""
        orders = [start + interleaved_lanes(size // lanes, lanes) for start, size in self.starts]
        order = np.concatenate(orders)
        return ChannelOrder(order, order.size, lanes)


def blocks_of(channels: int, widest: int) -> Blocks:
    """The largest whole blocks of at most `widest` channels, and the smallest for the rest."""
    sizes = [size for size in _BLOCK_SIZES if size <= widest]
    whole = next((size for size in sizes if size <= channels), 0)
    left = channels % whole if whole else channels
    return Blocks(channels, whole, min((size for size in sizes if size >= left > 0), default=0))


class Tiling(NamedTuple):
    """What is done together.

    Attributes:
        blocks: Blocks of channels.
        rows: Rows of outputs, 1 or 2.
        pixels: Neighbouring outputs, in whole blocks; 0 where there is none.
        rest_pixels: The same in the last block.
        slides: Whether windows share columns: taps side by side, and few enough to unroll.
    """

    blocks: Blocks
    rows: int
    pixels: int
    rest_pixels: int
    slides: bool


class Tilings(NamedTuple):
    """Tilings of equal blocks and rows.

    Attributes:
        pixels, rest_pixels: Numbers of pixels that a tiling may have, the best first.
    """

    blocks: Blocks
    rows: int
    pixels: Sequence[int]
    rest_pixels: Sequence[int]
    slides: bool

    def tilings(self) -> Iterator[Tiling]:
        """The tilings, the best first."""
        for pixels, rest in product(self.pixels, self.rest_pixels):
            yield Tiling(self.blocks, self.rows, pixels, rest, self.slides)


class Room(NamedTuple):
    """What a target has for sums.

    Attributes:
        vector_bytes: Bytes of a vector.
        registers: Vectors of sums that it keeps.
        by_taps: Whether taps follow each other, instead of columns of them.
    """

    vector_bytes: int
    registers: int
    by_taps: bool = False


def room_of(context: Context) -> Room:
    """What the target of a context has."""
    if has_pairs(context.target):
        return Room(context.vector_bytes, _INT16_SUMS)
    wide = context.vector_bytes == 64 or context.target.arch == "aarch64"
    registers, by_taps = 24 if wide else 8, multiplies_by_taps(context.target)
    if not (by_taps or has_dot(context.target)):
        registers //= 2
    return Room(context.vector_bytes, registers, by_taps)


def tilings_of(
    window: Window2D, size: tuple[int, int], channels: int, context: Context
) -> list[Tilings]:
    """Tilings for outputs of `size` rows and columns, those with the least work first."""
    room = room_of(context)
    is_int16 = not has_dot(context.target)
    shares = _slides(window) and _shares_rows(window.rows, size[0], is_int16, room.by_taps)
    rows = (1, 2) if shares else (1,)
    widest = [n for n in _BLOCK_SIZES if n <= context.vector_bytes][:2]
    families = [
        _tilings(window, size, blocks_of(channels, most), count, room)
        for most, count in product(widest, rows)
    ]
    return [family for _, family in sorted(families, key=lambda row: row[0])]


def narrow_tilings(window: Window2D, width: int, channels: int, context: Context) -> Tilings:
    """Row by row, in the smallest blocks; the best one first."""
    blocks = blocks_of(channels, CHANNEL_BLOCK)
    return _tilings(window, (1, width), blocks, 1, room_of(context))[1]


def pixels_together(
    window: Window2D, width: int, channels: int, has_parts: bool, context: Context
) -> int:
    """Neighbouring pixels whose channels, side by side, fill whole registers of bytes; else 1.

    A register of each row of taps is then one load, and four become quads by eight zips, where
    narrow blocks are put together lane by lane. Columns of taps are not shared, so few are better;
    and where weights may have parts, blocks that leave no lane empty are.
    """
    block = _BLOCK_SIZES[0]
    count = block // gcd(channels, block)
    is_near = window.columns.stride == 1 and window.columns.size <= _MOST_COLUMNS_APART
    fills = channels < block == context.vector_bytes and has_dot(context.target)
    wastes = channels % CHANNEL_BLOCK != 0 or not has_parts
    return (
        count
        if is_near and fills and wastes and count <= _MOST_PIXELS and width % count == 0
        else 1
    )


def joined_tilings(
    window: Window2D, size: tuple[int, int], channels: int, together: int, context: Context
) -> list[Tilings]:
    """Tilings where so many pixels are one, the best first."""
    is_int16 = not has_dot(context.target)
    rows = 2 if _shares_rows(window.rows, size[0], is_int16, room_of(context).by_taps) else 1
    blocks = blocks_of(channels * together, context.vector_bytes)
    pixels = [count for count in _PIXELS_APART if count * together <= size[1]]
    return [Tilings(blocks, rows, pixels, [0], False)]


def _slides(window: Window2D) -> bool:
    few = window.rows.size * window.columns.size <= MOST_UNROLLED_TAPS
    return window.columns.dilation == 1 and few


def _shares_rows(window: Window, height: int, is_int16: bool, by_taps: bool) -> bool:
    """Whether taps of two rows of outputs take no more groups of four rows than those of one."""
    if height <= 1 or not window.stride == window.dilation == 1:
        return False
    if by_taps:
        return True
    if is_int16:
        return _int16_products(window.size, 1) == _int16_products(window.size, 0)
    return -(-(window.size + 1) // 4) == -(-window.size // 4)


def _int16_products(taps: int, first: int) -> int:
    """Products of int16 of a column of taps that begins so far into a group of four.

    One is of the even taps of a group, another of its odd ones.
    """
    return len({(tap // 4, tap % 2) for tap in range(first, first + taps)})


@lru_cache(maxsize=4096)
def _tilings(
    window: Window2D, size: tuple[int, int], blocks: Blocks, rows: int, room: Room
) -> tuple[float, Tilings]:
    """Tilings of some blocks and rows; and the estimated work of the best."""
    lanes, best, work = room.vector_bytes // 4, [[0], [0]], 0.0
    for place, channels in enumerate((blocks.whole, blocks.rest)):
        if channels == 0:
            continue
        vectors = channels // lanes
        sums = _MOST_SUMS_OF_A_ROW if rows == 1 else room.registers
        fitting = min(sums, room.registers) // (vectors * rows)
        most = max(1, min(fitting, size[1], _MOST_PIXELS))
        counts = range(1, most + 1)
        costs = {n: _work(window, size[1], n, rows, channels, room) for n in counts}
        best[place] = sorted(costs, key=lambda n: (costs[n], -n))
        number = 1 if place else blocks.channels // channels
        work += costs[best[place][0]] * vectors * number * -(-size[0] // rows)
    return work, Tilings(blocks, rows, best[0], best[1], _slides(window))


def tiling_work(tiling: Tiling, window: Window2D, size: tuple[int, int], room: Room) -> float:
    """The estimated work of a tiling for outputs of `size` rows and columns."""
    (height, width), blocks, work = size, tiling.blocks, 0.0
    number = blocks.channels // blocks.whole if blocks.whole else 0
    parts = ((blocks.whole, tiling.pixels, number), (blocks.rest, tiling.rest_pixels, 1))
    for channels, pixels, count in parts:
        if channels:
            row = _work(window, width, pixels, tiling.rows, channels, room)
            vectors = channels // (room.vector_bytes // 4)
            work += row * vectors * count * -(-height // tiling.rows)
    return work


def _work(window: Window2D, width: int, pixels: int, rows: int, channels: int, room: Room) -> float:
    """Vector instructions per register of channels for `rows` rows of outputs.

    Of a column of inputs that is bringing it in order, or widening it; loads of weights count as
    instructions where products take registers alone.
    """
    taps = window.columns
    if room.by_taps:
        column, products, loads = _WIDEN * (window.rows.size + rows - 1), _TAP * window.rows.size, 0
    else:
        column, products, loads = _interleave(channels, room.vector_bytes // 4), 1.0, rows
    columns = (pixels - 1) * taps.stride + taps.size
    outputs = pixels * rows * (taps.size * products + _REQUANTISE)
    loaded = loads * taps.size + _PARAMETER_LOADS
    return -(-width // pixels) * (columns * column + outputs + loaded)


def _interleave(channels: int, lanes: int) -> float:
    """Instructions that bring a column of inputs of so many channels in order."""
    return 2.0 if channels == 4 * lanes else 4.5
