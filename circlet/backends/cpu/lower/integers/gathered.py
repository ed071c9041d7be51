"""Which windows are gathered in scratch, tile by tile, before products read them."""

from __future__ import annotations

from typing import Any

from circlet.backends.cpu.lower.integers.q8 import has_dot
from circlet.backends.cpu.lower.products.product import Im2colRow, Product
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lowering import ParamValue
from circlet.target.targets import Target

_MOST_BYTES = 16
_GROUP = 4


def gathers(product: Product[Any], target: Target) -> bool:
    """Whether `conv_q8_gather.h` makes one run of each window.

    Rows of taps of few channels end within a group of four. With dot products of bytes a group
    takes less time than what is copied for it.
    """
    row = product.im2col.joined()
    one_run = row.columns == 1 and product.groups == 1
    if has_dot(target) or product.computed is not None or not one_run:
        return False
    return row.rows > 1 and row.length <= _MOST_BYTES and row.rows * row.length >= _GROUP


def runs_of(product: Product[Any], target: Target) -> Im2colRow:
    """The runs of a window as products read them."""
    row = product.im2col.joined()
    return Im2colRow(1, 1, row.rows * row.length) if gathers(product, target) else row


def gathered_windows(product: Product[Any], tile: Tile) -> tuple[dict[str, ParamValue], int]:
    """Parameters of the gathered windows of a tile, and their elements in scratch."""
    row = product.im2col.joined()
    window = row.rows * row.length
    apart = -(-window // _GROUP) * _GROUP
    params: dict[str, ParamValue] = {
        "gather_pixel": apart,
        "gather_rows": row.rows,
        "flip_down": row.row_step,
    }
    return params, apart * tile.pixels
