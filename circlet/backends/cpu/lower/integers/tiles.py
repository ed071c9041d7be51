"""Register tiles of the 8- and 16-bit kernels."""

from __future__ import annotations

from functools import lru_cache

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.integers.q8 import has_dot, has_pairs
from circlet.backends.cpu.lower.products.tiles import Tile, best_first
from circlet.target.targets import Target

_WIDE_ROW = 6
_MOST_PIXELS = 16
_SPARE, _EMULATED_SPARE = 3, 7  # what a dot product needs besides; made of products of int16


def choose_tile(width: int, channels: int, target: Target, lanes: int) -> Tile:
    """The tile that covers rows of outputs with the least work and the fewest loads."""
    return tiles_of(width, -(-channels // lanes), target)[0]


@lru_cache(maxsize=4096)
def tiles_of(width: int, vectors: int, target: Target) -> tuple[Tile, ...]:
    """All tiles for rows of `width` pixels by `vectors` vectors, the least predicted time first.

    Only short rows get tiles of many vectors: fewer distinct tiles are fewer functions to compile.
    """
    wide = target.has("avx512f") if target.arch == "x86_64" else target.arch == "aarch64"
    spare = _SPARE if has_dot(target) or has_pairs(target) else _EMULATED_SPARE
    registers = (32 if wide else 16) - spare
    candidates = _tiles_of_registers(registers, 4 if width >= _WIDE_ROW else 7)
    fitting = [row for row in candidates if row[0].pixels <= max(width, 1)]
    return best_first(fitting, width, vectors)


def row_cycles(tile: Tile, width: int, vectors: int) -> float:
    """Predicted cycles of a row of outputs that tiles cover, per group of four taps."""
    return tile.covering(width, vectors) * costs.dot_tile(tile.pixels, tile.whole)


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
