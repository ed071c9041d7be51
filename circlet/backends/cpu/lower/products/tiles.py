"""Register tiles: what they are, and how one is chosen over the cost model.

A micro-kernel holds `pixels` x `vectors` sums in registers while it walks the depth; each step
loads `vectors` registers of weights and broadcasts `pixels` inputs (Goto and van de Geijn, Anatomy
of High-Performance Matrix Multiplication). Large tiles load less per product; what bounds them is
the number of registers, and what a row of outputs leaves over in its last tile. Each family of
kernels lists the tiles that its registers hold; the rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Any, NamedTuple

from circlet.backends.cpu.lowering import Context, Kernel, Packed
from circlet.backends.cpu.tuning.knobs import Knob
from circlet.ir import Op


class Tile(NamedTuple):
    """Output pixels times vectors of output channels that a kernel holds in registers.

    Attributes:
        pixels: Output pixels of one row.
        vectors: Vectors of channels; the last one of floats may be half a vector.
    """

    pixels: int
    vectors: float

    @property
    def whole(self) -> int:
        """Registers that hold the vectors of a pixel."""
        return ceil(self.vectors)

    @property
    def half(self) -> int:
        """1 where the last vector is half a vector, else 0."""
        return int(self.whole > self.vectors)

    def channels(self, lanes: int) -> int:
        """Output channels, given the lanes of a vector."""
        return int(self.vectors * lanes)

    def covering(self, width: int, vectors: float) -> int:
        """How many tiles cover a row of `width` pixels and `vectors` vectors of channels."""
        return -(-width // self.pixels) * ceil(vectors / self.vectors)


def best_first(
    candidates: Iterable[tuple[Tile, float]], width: int, vectors: float
) -> tuple[Tile, ...]:
    """Tiles, each with its predicted cycles, the one that covers a row in the least time first.

    Every new size of a network asks, so `Tile.covering` is written out.
    """
    ranked = [
        (-(-width // tile.pixels) * -(-vectors // tile.vectors) * cycles, place, tile)
        for place, (tile, cycles) in enumerate(candidates)
    ]
    ranked.sort()
    return tuple([tile for _, _, tile in ranked])


def half_row(tile: Tile, width: int) -> Tile:
    """The tile for rows of half the width, which precompiled kernels are for."""
    return tile._replace(pixels=-(-width // 2))


class TileUse(NamedTuple):
    """How a lowering uses a tile.

    Attributes:
        packing: Names the constants as they are packed for it.
        kernel: The kernel, given what was found out while they were packed.
        packer: Where weights are computed: the kernel that packs them, and what is found out then.
    """

    packing: Callable[[Tile], str]
    kernel: Callable[[Tile, Any], Kernel]
    packer: Callable[[Tile], tuple[Kernel, Any]] | None = None


def chosen_tile(
    op: Op,
    context: Context,
    name: str,
    tiles: Sequence[Tile],
    cost: Callable[[Tile], float],
    use: TileUse,
) -> Tile:
    """The best tile; for another size of the network, among those that are there for the op."""

    known: dict[str, Packed | None] = {}

    def is_there(tile: Tile) -> bool:
        if use.packer is not None:
            packer, fact = use.packer(tile)
            return context.has(packer) and context.has(use.kernel(tile, fact))
        packing = use.packing(tile)
        if packing not in known:
            known[packing] = context.reused(op, packing)
        found = known[packing]
        return found is not None and context.has(use.kernel(tile, found.fact))

    return context.choose(op, Knob(name, tiles, cost, is_there))
