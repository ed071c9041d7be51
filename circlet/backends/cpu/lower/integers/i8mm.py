"""Products of 8-bit matrices by Arm's i8mm: two pixels by two channels by eight bytes at a time."""

from __future__ import annotations

from functools import lru_cache

from circlet.backends.cpu.costs import Costs, costs_of
from circlet.backends.cpu.lower.integers.q8 import (
    Tile,
    activation_offset,
    dot_is_signed,
    tile_work,
    tiles_of,
)
from circlet.ir import DType, Tensor
from circlet.target.targets import Target

_DEPTH = 8
_MOST_SUMS = 24


def has_i8mm(target: Target) -> bool:
    """Whether the target has products of unsigned with signed bytes, and of small matrices."""
    return dot_is_signed(target) and target.has("i8mm")


def product_offset(data: Tensor, target: Target) -> int:
    """What is added to stored activations on their way into products of matrices or `v_dot4`."""
    return 0 if has_i8mm(target) else activation_offset(data, target)


def group_of(run_bytes: int, target: Target) -> int:
    """Bytes of a channel that kernels take at a time from a run: 8 in matrices, else 4."""
    return _DEPTH if has_i8mm(target) and run_bytes >= _DEPTH else 4


def dots_of(data: Tensor, run_bytes: int, target: Target) -> str:
    """How `conv_q8.h` multiplies activations as they are stored."""
    is_unsigned = data.dtype is DType.UINT8 and has_i8mm(target)
    how = "CONV_Q8_UNSIGNED" if is_unsigned else "CONV_Q8_NO_FLIP"
    return f"{how} | CONV_Q8_MATRIX" if group_of(run_bytes, target) == _DEPTH else how


def product_tiles(
    row_pixels: int, columns: int, run_bytes: int, target: Target
) -> tuple[Tile, ...]:
    """Tiles of `conv_q8.h`, those with the least work first."""
    tiles = tiles_of(row_pixels, columns, target)
    if group_of(run_bytes, target) != _DEPTH:
        return tiles
    return _even_tiles(tiles, row_pixels, columns, costs_of(target))


@lru_cache(maxsize=1024)
def _even_tiles(
    tiles: tuple[Tile, ...], row_pixels: int, columns: int, costs: Costs
) -> tuple[Tile, ...]:
    """Tiles whose sums leave registers for matrices; an odd pixel takes the time of two."""

    def work(tile: Tile) -> float:
        even = Tile(tile.pixels + tile.pixels % 2, tile.vectors)
        rows = -(-row_pixels // tile.pixels) * even.pixels
        return tile_work(costs, even, rows, columns)

    fitting = (t for t in tiles if (t.pixels + t.pixels % 2) * t.vectors <= _MOST_SUMS)
    return tuple(sorted(fitting, key=work))
