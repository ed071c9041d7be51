"""Register tiles of the 8- and 16-bit kernels."""

from __future__ import annotations

from functools import lru_cache

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.integers.q8 import has_dot, has_pairs
from circlet.backends.cpu.lower.products.tiles import Tile, best_first
from circlet.target.targets import Target

_WIDE_ROW = 6
_MOST_PIXELS = 16
_MOST_VECTORS, _MOST_BY_LANE = 7, 8
_SPARE, _EMULATED_SPARE = 3, 7  # what a dot product needs besides; made of products of int16


def choose_tile(width: int, channels: int, target: Target, lanes: int) -> Tile:
    """The tile that covers rows of outputs with the least work and the fewest loads."""
    return tiles_of(width, -(-channels // lanes), target)[0]


@lru_cache(maxsize=4096)
def tiles_of(width: int, vectors: int, target: Target, weight_bytes: int = 0) -> tuple[Tile, ...]:
    """All tiles for rows of `width` pixels by `vectors` vectors, the least predicted time first.

    Targets that add products in 16 bits take account of `weight_bytes`, those of all channels.
    Only short rows get tiles of many vectors: fewer distinct tiles are fewer functions to compile.
    """
    registers = _registers(target)
    is_arm = target.arch == "aarch64"
    widest = 4 if width >= _WIDE_ROW else _MOST_BY_LANE if is_arm else _MOST_VECTORS
    if is_arm:
        candidates = _tiles_by_lane(has_dot(target), widest)
    elif has_pairs(target):
        candidates = _paired_tiles(registers, widest, costs.are_nearest(weight_bytes))
    else:
        spare = _SPARE if has_dot(target) else _EMULATED_SPARE
        candidates = _tiles_of_registers(registers - spare, widest)
    fitting = [row for row in candidates if row[0].pixels <= max(width, 1)]
    return best_first(fitting, width, vectors)


def row_cycles(
    tile: Tile, width: int, vectors: int, target: Target, weight_bytes: int = 0
) -> float:
    """Predicted cycles of a row of outputs that tiles cover, per group of four taps."""
    if has_pairs(target):
        is_near = costs.are_nearest(weight_bytes)
        cycles = costs.paired_tile(tile.pixels, tile.whole, _registers(target), is_near)
    else:
        cycles = costs.dot_tile(tile.pixels, tile.whole)
    return tile.covering(width, vectors) * cycles


def _registers(target: Target) -> int:
    """Vector registers of x86-64."""
    return 32 if target.arch == "x86_64" and target.has("avx512f") else 16


@lru_cache(maxsize=64)
def _tiles_of_registers(registers: int, widest: int) -> tuple[tuple[Tile, float], ...]:
    """Tiles whose sums and weights registers hold, the largest first, and their cycles.

    Broadcasts of inputs are operands in memory, or take one register, which is spare.
    """
    found = []
    for vectors in range(1, widest + 1):
        most = min((registers + 1 - vectors) // vectors, _MOST_PIXELS)
        found += [Tile(pixels, vectors) for pixels in range(1, most + 1)]
    return tuple([(tile, costs.dot_tile(tile.pixels, tile.whole)) for tile in reversed(found)])


@lru_cache(maxsize=8)
def _paired_tiles(registers: int, widest: int, is_near: bool) -> tuple[tuple[Tile, float], ...]:
    """The same where products are added in 16 bits, or are of int16."""
    tiles = [tile for tile, _ in _tiles_of_registers(registers - _SPARE, widest)]
    return tuple(
        [(tile, costs.paired_tile(tile.pixels, tile.whole, registers, is_near)) for tile in tiles]
    )


@lru_cache(maxsize=8)
def _tiles_by_lane(dots: bool, widest: int) -> tuple[tuple[Tile, float], ...]:
    """Tiles of `conv_q8_lanes.h` that 32 registers hold, and their cycles.

    A pixel has a register of inputs, and sums of a register; without a dot product two registers of
    groups and sums of two, which take half of all registers at most.
    """
    sums, inputs, besides, held = (1, 1, 1, 31) if dots else (2, 3, 4, 16)
    found = []
    for vectors in range(1, widest + 1):
        fitting = (32 - besides) // (sums * vectors + inputs)
        most = min(fitting, held // (sums * vectors), _MOST_PIXELS)
        found += [Tile(pixels, vectors) for pixels in range(1, most + 1)]
    return tuple([(tile, costs.dot_tile(tile.pixels, tile.whole)) for tile in reversed(found)])
