"""Products of 8-bit matrices by Arm's i8mm: two pixels by two channels by eight bytes at a time."""

from __future__ import annotations

from functools import lru_cache

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.integers.q8 import activation_offset, dot_is_signed
from circlet.backends.cpu.lower.integers.tiles import tiles_of
from circlet.backends.cpu.lower.products.tiles import Tile, best_first
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
    width: int, vectors: int, run_bytes: int, target: Target, weight_bytes: int
) -> tuple[Tile, ...]:
    """Tiles of `conv_q8.h`, the least predicted time first."""
    tiles = tiles_of(width, vectors, target, weight_bytes)
    if group_of(run_bytes, target) != _DEPTH:
        return tiles
    return _even_tiles(tiles, width, vectors)


@lru_cache(maxsize=1024)
def _even_tiles(tiles: tuple[Tile, ...], width: int, vectors: int) -> tuple[Tile, ...]:
    """Tiles whose sums leave registers for matrices; an odd pixel takes the time of two."""
    even = ((tile, tile.pixels + tile.pixels % 2) for tile in tiles)
    fitting = [
        (tile, costs.dot_tile(pixels, tile.whole))
        for tile, pixels in even
        if pixels * tile.whole <= _MOST_SUMS
    ]
    return best_first(fitting, width, vectors)
