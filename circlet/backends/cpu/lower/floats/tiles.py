"""Chooses register tiles and task sizes of the float matrix kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.products.tiles import Tile, best_first
from circlet.target.targets import Target

FLOAT_BYTES = 4
_MOST_PIXELS = 14
_MOST_VECTORS = 8
_DEEP = 1024
_TASK_INPUT_BYTES, _FAR_TASK_INPUT_BYTES = 96 << 10, 512 << 10
_TASK_PANEL_STEPS = 4096
_TASK_PANEL_BYTES = 64 << 10  # of packed columns, which all rows of a task meet
_TASKS_WANTED = 16
_DOT_COLUMNS = 4


@dataclass(frozen=True)
class Registers:
    """Vector registers of a target.

    Attributes:
        count: Architectural vector registers, or their worth where vectors are emulated.
        by_lane: Whether one register holds several inputs of a pixel, multiplied by lane.
        has_halves: Whether half a vector may take less time than a whole one.
        broadcasts: Whether multiply-adds broadcast an input that they load themselves.
    """

    count: int
    by_lane: bool = False
    has_halves: bool = False
    broadcasts: bool = True

    def hold(self, tile: Tile) -> bool:
        """Whether a tile's sums and the operands of one step fit, with one register to spare."""
        sums = tile.pixels * tile.whole
        operands = tile.pixels + 1 if self.by_lane else tile.whole + 1
        return sums + operands < self.count

    def cycles(self, tile: Tile, depth: int, pixel_bytes: int = 0) -> float:
        """Predicted cycles of a tile of so many multiply-adds of each output."""
        if self.by_lane:
            cost = costs.lane_tile
        else:
            cost = costs.float_tile if self.broadcasts else costs.broadcast_tile
        cycles = cost(tile.pixels, tile.vectors, depth)
        return cycles * costs.conflicts(tile.pixels, pixel_bytes)

    def row_cycles(
        self, tile: Tile, width: int, vectors: float, depth: int = _DEEP, pixel_bytes: int = 0
    ) -> float:
        """Predicted cycles of a row of `width` pixels and `vectors` channels that tiles cover."""
        return tile.covering(width, vectors) * self.cycles(tile, depth, pixel_bytes)


def lanes_of(vector_bytes: int) -> int:
    """Floats in a vector."""
    return vector_bytes // FLOAT_BYTES


def registers_of(target: Target, vector_bytes: int) -> Registers:
    """The registers that kernels for a target may count on."""
    if vector_bytes == 64:
        return Registers(32, has_halves=True)
    if target.arch == "aarch64":
        return Registers(32, by_lane=True)
    if target.arch == "riscv64":
        return Registers(8)
    return Registers(16, broadcasts=False)


def vectors_of(registers: Registers, channels: int, lanes: int) -> float:
    """Vectors that hold so many channels, counted in halves where those are worth it."""
    if not registers.has_halves:
        return -(-channels // lanes)
    return -(-2 * channels // lanes) / 2


def choose_tile(
    registers: Registers, width: int, vectors: float, depth: int = _DEEP, pixel_bytes: int = 0
) -> Tile:
    """The tile with the least predicted time; see `tiles_of`."""
    return tiles_of(registers, width, vectors, depth, pixel_bytes)[0]


@lru_cache(maxsize=4096)
def tiles_of(
    registers: Registers, width: int, vectors: float, depth: int = _DEEP, pixel_bytes: int = 0
) -> tuple[Tile, ...]:
    """Tiles for rows of `width` pixels and `vectors` channels, the least predicted time first.

    Args:
        registers: What the target has.
        width: Output pixels of a row.
        vectors: Vectors of output channels of a group.
        depth: Multiply-adds of one output.
        pixel_bytes: Between the inputs of two pixels; 0 where those of a tile follow one another.
    """
    counts = [float(count) for count in range(1, min(_MOST_VECTORS, ceil(vectors)) + 1)]
    halves = (count - 0.5 for count in counts if vectors % 1)
    counts += [half for half in halves if vectors % half == 0]
    candidates = [
        (tile, registers.cycles(tile, depth, pixel_bytes))
        for pixels in range(max(1, min(_MOST_PIXELS, width)), 0, -1)
        for count in counts
        if registers.hold(tile := Tile(pixels, count))
    ]
    return best_first(candidates, width, vectors)


class Dealt(NamedTuple):
    """How tiles are dealt out to threads.

    Attributes:
        tiles: Of a task, which makes one block of channels of them.
        joined: Tasks of a block that a thread does before those of the next one.
    """

    tiles: int
    joined: int


def dealt_tiles(
    tile: Tile, tiles: int, blocks: int, depth: int, operand_bytes: tuple[int, int]
) -> Dealt:
    """Tasks whose input stays in the second-level cache while blocks go by.

    A tile is a task, so that threads share even small problems out evenly, and each has the same
    part of the image as in the layers before and behind. Where the weights come from beyond the
    second-level cache, they do so once for all tiles of a task: tasks then fill the cache, and are
    as large as each other, but not so large that threads find no work.

    Args:
        tile: The register tile.
        tiles: Tiles of all rows.
        blocks: Blocks of channels.
        depth: Multiply-adds of one output.
        operand_bytes: Of the input that all tiles read, and of the weights of all blocks.
    """
    input_bytes, weight_bytes = operand_bytes
    if costs.are_near(weight_bytes):
        cached = _TASK_INPUT_BYTES // max(1, tile.pixels * depth * FLOAT_BYTES)
        return Dealt(1, min(tiles, max(1, cached)))
    shared = -(-tiles * blocks // _TASKS_WANTED)
    worthwhile = ceil(_TASK_PANEL_STEPS / max(1, tile.pixels * tile.vectors * depth))
    cached = _FAR_TASK_INPUT_BYTES * tiles // max(1, input_bytes)
    most = min(tiles, max(1, worthwhile, min(cached, shared)))
    return Dealt(ceil(tiles / ceil(tiles / most)), 1)


def task_panels(panels: int, tasks: int, panel_bytes: int) -> int:
    """Panels of columns that one task packs and takes each tile of rows through.

    They stay near meanwhile, and leave work for every thread; all tasks but the last of a product
    have as many.

    Args:
        panels: Of one product.
        tasks: Of all products, were each of a single panel.
        panel_bytes: Of a packed panel.
    """
    most = max(1, min(panels, _TASK_PANEL_BYTES // panel_bytes, tasks // _TASKS_WANTED))
    return ceil(panels / ceil(panels / most))


def sums_over_lanes(rows: int, depth: int, columns: int, registers: Registers, lanes: int) -> bool:
    """Whether rows meet columns that lie along sums as they are: registers hold the sums."""
    fits = rows * _DOT_COLUMNS + _DOT_COLUMNS + 1 <= registers.count
    return fits and columns >= _DOT_COLUMNS and depth >= lanes
