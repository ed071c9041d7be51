"""Where attention keeps scores: blocks of rows in scratch memory, which the cache holds."""

from __future__ import annotations

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.products.tiles import Tile

_CACHED_BYTES = 256 << 10


def score_pitch(keys: int) -> int:
    """Elements between rows of at least so many: an odd number of cache lines.

    Elements of all rows of a tile are read side by side, and lie in many sets of the first-level
    cache then.
    """
    lines = -(-keys * FLOAT_BYTES // LINE_BYTES)
    return (lines | 1) * LINE_BYTES // FLOAT_BYTES


def block_rows(rows: int, pitch: int, tiles: tuple[Tile, Tile]) -> int:
    """Rows of a block, given all and the tiles that they are computed in.

    Blocks are as large as each other, for the last one is made whole by rows before it.
    """
    tall = max(tile.pixels for tile in tiles)
    most = max(1, _CACHED_BYTES // (pitch * FLOAT_BYTES * tall)) * tall
    blocks = -(-rows // most)
    return min(rows, align(-(-rows // blocks), tall))
