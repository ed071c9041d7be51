"""The scores of attention: the tiles that make and meet them, and where they are kept.

Scores are products of rows of queries and keys, and are multiplied by values in turn. Blocks of
their rows lie in scratch memory, which the cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, Registers, tiles_of, vectors_of
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lowering import Context, Kernel
from circlet.backends.cpu.tuning.knobs import Knob, joined
from circlet.ir import Op

_CACHED_BYTES = 256 << 10
_PATIENCE = 2.0


class ScoreSizes(NamedTuple):
    """Sizes of one matrix of scores, and of what makes and meets it."""

    rows: int
    depth: int
    keys: int
    columns: int


class ScoreTiles(NamedTuple):
    """Register tiles of the scores and of the results."""

    scores: Tile
    results: Tile

    @property
    def arguments(self) -> tuple[int, ...]:
        """The kernels' arguments."""
        scores, results = self
        return scores.pixels, scores.whole, results.pixels, results.whole, results.half


def choose_tiles(
    op: Op,
    context: Context,
    registers: Registers,
    sizes: ScoreSizes,
    kernel: Callable[[ScoreTiles], Kernel],
) -> ScoreTiles:
    """The tiles of the least predicted time.

    Sequences come in all lengths: tiles of another length serve, unless they take far longer.
    """
    lanes = context.vector_bytes // FLOAT_BYTES
    costs = _costs(registers, sizes, lanes)
    knob = Knob(
        f"{kernel(next(iter(costs))).function} {joined(sizes)}",
        tuple(costs),
        costs.__getitem__,
        lambda tiles: context.has(kernel(tiles)),
        _PATIENCE,
    )
    return context.choose(op, knob)


@lru_cache(maxsize=256)
def _costs(registers: Registers, sizes: ScoreSizes, lanes: int) -> dict[ScoreTiles, float]:
    """Predicted cycles of tiles, the least first; without those that nothing would choose."""
    rows, depth, keys, columns = sizes

    def of(vectors: float, depth: int) -> list[tuple[Tile, float]]:
        tiles = tiles_of(registers, rows, vectors, depth)
        cycles = [registers.row_cycles(tile, rows, vectors, depth) for tile in tiles]
        most = _PATIENCE * cycles[0]
        return [(t, c) for t, c in zip(tiles, cycles, strict=True) if c <= most]

    scores = of(-(-keys // lanes), depth)
    results = of(vectors_of(registers, columns, lanes), keys)
    costs = {ScoreTiles(s, r): own + other for s, own in scores for r, other in results}
    return dict(sorted(costs.items(), key=lambda item: item[1]))


def score_pitch(keys: int) -> int:
    """Elements between rows of at least so many: an odd number of cache lines.

    Elements of all rows of a tile are read side by side, and lie in many sets of the first-level
    cache then.
    """
    lines = -(-keys * FLOAT_BYTES // LINE_BYTES)
    return (lines | 1) * LINE_BYTES // FLOAT_BYTES


def block_rows(rows: int, pitch: int, tiles: ScoreTiles) -> int:
    """Rows of a block, given all and the tiles that they are computed in.

    Blocks are as large as each other, for the last one is made whole by rows before it.
    """
    tall = max(tile.pixels for tile in tiles)
    most = max(1, _CACHED_BYTES // (pitch * FLOAT_BYTES * tall)) * tall
    blocks = -(-rows // most)
    return min(rows, align(-(-rows // blocks), tall))
