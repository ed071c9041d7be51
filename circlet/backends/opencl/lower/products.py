"""Tiles of matrix products, and of convolutions as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circlet.backends.opencl.device import DeviceFacts
from circlet.backends.opencl.emission import Argument, Constant, Emission
from circlet.backends.opencl.lower.sums import Sums


class Tile(NamedTuple):
    """What a group computes: `rows` by `columns`, an item `each` rows by four columns."""

    rows: int
    columns: int
    each: int

    @property
    def group(self) -> tuple[int, int, int]:
        """The sizes of a group."""
        return self.columns // 4, self.rows // self.each, 1


TILES = (
    Tile(128, 64, 8),
    Tile(64, 64, 4),
    Tile(64, 32, 4),
    Tile(64, 16, 4),
    Tile(32, 32, 4),
    Tile(16, 16, 1),
)
_ROUNDS = 2  # groups for each compute unit, at least: one waits for memory while another computes


@dataclass(frozen=True)
class Pixels:
    """Rows of a product that are windows over images; all pairs are of rows and columns."""

    size: tuple[int, int]
    channels: int
    pitch: int
    taps_x: int
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    windows: tuple[int, int]

    def arguments(self) -> list[int]:
        """In the order of the kernel's parameters."""
        return [
            *self.size,
            self.channels,
            self.pitch,
            self.taps_x,
            *self.strides,
            *self.dilations,
            *self.before,
            *self.windows,
        ]


NO_PIXELS = Pixels((1, 1), 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1))


@dataclass(frozen=True)
class Product:
    """Products of the same sizes: [rows, depth] by [depth, columns].

    Attributes:
        offsets: For each the first elements of a, b, c, and of bias and factors.
        packed: Elements between rows of b where these are stored so, padded to fours; else 0.
        a_steps, b_steps: Elements between rows, and between columns, of plain matrices.
        c_row: Elements between rows of the result.
        pixels: Where rows are windows over images.
    """

    rows: int
    columns: int
    depth: int
    c_row: int
    offsets: Sequence[tuple[int, int, int, int]] = ((0, 0, 0, 0),)
    packed: int = 0
    a_steps: tuple[int, int] = (0, 1)
    b_steps: tuple[int, int] = (0, 0)
    pixels: Pixels | None = None

    @property
    def loads_vectors(self) -> bool:
        """Whether four values of the depth lie side by side wherever a kernel reads four."""
        if self.pixels is not None:
            return self.pixels.channels % 4 == 0
        return self.a_steps[1] == 1 and self.depth % 4 == 0


def tile_for(product: Product, facts: DeviceFacts) -> Tile:
    """The largest tile that keeps the device busy without computing far more than is asked."""
    for tile in TILES[:-1]:
        x, y, _ = tile.group
        if x * y > facts.group_items or (tile.rows + tile.columns) * 256 > facts.local_bytes:
            continue
        if 2 * product.rows <= tile.rows or 2 * product.columns <= tile.columns:
            continue
        down, across = -(-product.rows // tile.rows), -(-product.columns // tile.columns)
        if down * across * len(product.offsets) >= _ROUNDS * facts.compute_units:
            return tile
    return TILES[-1]


def launch_product(
    emission: Emission,
    sums: Sums,
    operands: tuple[Argument, Argument, Argument],
    product: Product,
) -> None:
    """Compute a, b -> c."""
    tile = tile_for(product, emission.facts)
    flags = {
        "IMAGE": int(product.pixels is not None),
        "VECTOR": int(product.loads_vectors),
        "PACKED": int(product.packed > 0),
        "BM": tile.rows,
        "BN": tile.columns,
        "TM": tile.each,
    }
    kernel = emission.template("product", {**sums.defines, **flags})
    table = np.asarray(product.offsets, np.int32)
    pixels = product.pixels or NO_PIXELS
    sizes = [product.rows, product.columns, product.depth, product.packed]
    steps = [*product.a_steps, *product.b_steps, product.c_row]
    offsets = Constant("offsets", lambda: table)
    arguments = [*operands, *sums.arguments, offsets, *sizes, *steps, *pixels.arguments()]
    x, y, _ = tile.group
    across, down = -(-product.columns // tile.columns), -(-product.rows // tile.rows)
    emission.launch(kernel, arguments, (across * x, down * y, len(table)), (x, y, 1))
