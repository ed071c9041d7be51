"""Where the top bits of activations change, for dot products that want them otherwise."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from circlet.backends.cpu.lower.integers.gathered import gathered_windows, gathers
from circlet.backends.cpu.lower.integers.i8mm import dots_of
from circlet.backends.cpu.lower.integers.pairs_q8 import WIDE
from circlet.backends.cpu.lower.integers.q8 import has_dot
from circlet.backends.cpu.lower.products.product import Im2colRow, Product
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lowering import Context, ParamValue
from circlet.ops.operands import operand
from circlet.target.targets import Target

ROW_ALIGNMENT = 64
_FLIP_ROWS, _FLIP_TILES = "CONV_Q8_FLIP_ROWS", "CONV_Q8_FLIP_TILES"
_NARROW = " | CONV_Q8_NARROW"
_FLIP_LOADS = "CONV_Q8_FLIP_LOADS"
_FEW_VECTORS = 2
_MOST_STEPS = 4  # from a row of outputs to the next, behind each other in scratch
_MOST_APART = 4  # runs of pixels, for those between them to be flipped along


def flip_of(
    product: Product[Any], row: Im2colRow, tile: Tile, products: str, context: Context
) -> str:
    """Where top bits change: once for all products, unless that reads much that no window has.

    A register of Arm holds sixteen taps of a pixel: there products with many channels share a flip.
    """
    if gathers(product, context.target) and (products == WIDE or product.epilogue.flip):
        return _FLIP_TILES
    if products == WIDE:
        return _FLIP_ROWS if row.rows > 1 else _FLIP_TILES
    narrow = _NARROW if _is_narrow(product, context.target) else ""
    if not product.epilogue.flip:
        run_bytes = grouped_bytes(product, row)
        return dots_of(operand(product.op, 0), run_bytes, context.target) + narrow
    if context.target.arch == "aarch64":
        once = row.rows > 1 and tile.vectors <= _FEW_VECTORS
        return (_FLIP_ROWS if once else _FLIP_LOADS) + narrow
    pixels = product.width if row.rows > 1 else tile.pixels
    is_short = _flipped_rows(product, row, pixels)["flip_bytes"] < context.vector_bytes
    if is_short and tile.vectors > _FEW_VECTORS:
        return _FLIP_LOADS
    if row.rows > 1:
        return _FLIP_ROWS
    return _FLIP_LOADS if is_short or are_apart(product, row) else _FLIP_TILES


def _is_narrow(product: Product[Any], target: Target) -> bool:
    """Whether no weight is -128, where two products are added in 16 bits (`conv_q8_lanes.h`)."""
    if target.arch != "aarch64" or has_dot(target) or product.computed is not None:
        return False
    return bool(product.weights().min(initial=0) > np.iinfo(np.int8).min)


def are_apart(product: Product[Any], row: Im2colRow) -> bool:
    """Whether most of what lies between the first and the last pixel of a tile is not read."""
    return row.rows == 1 and product.source.pixel > _MOST_APART * _pixel_bytes(product, row)


def _pixel_bytes(product: Product[Any], row: Im2colRow) -> int:
    """Bytes from the first of a run to the last of the same run of the last group."""
    return (product.groups - 1) * product.shape[3] + row.length


def _flipped_rows(
    product: Product[Any], row: Im2colRow, pixels: int, *, apart: bool = False
) -> dict[str, int]:
    """Parameters of the flipped copy of the rows that so many outputs of a row read.

    Args:
        apart: Whether groups of channels are copied by themselves.
    """
    read, windows = _pixel_bytes(product, row), product.source.pixel
    row_bytes = (pixels - 1) * windows + (row.columns - 1) * row.column_step + read
    pitch = gcd(windows, row.column_step)
    pieces = product.groups > 1 and (apart or read < pitch)
    return {
        "flip_bytes": row_bytes,
        "flip_down": row.row_step,
        "flip_pixel": pitch,
        "flip_pixels": (row_bytes - read) // pitch + 1 if pieces else 1,
        "run_down": -(-row_bytes // ROW_ALIGNMENT) * ROW_ALIGNMENT,
    }


def _kept_rows(product: Product[Any], row: Im2colRow) -> dict[str, int]:
    """Parameters of how many rows of taps scratch holds, and two rows of outputs share.

    Rows that are shared are copied once, until there is no room behind those that are there.
    """
    step, rest = divmod(product.source.row, row.row_step)
    if rest or not 0 < step < row.rows:
        return {"flip_rows": row.rows, "flip_kept": 0}
    steps = min(_MOST_STEPS, product.sizes[1] - 1)
    return {"flip_rows": row.rows + steps * step, "flip_kept": row.rows - step}


def copied(
    product: Product[Any], row: Im2colRow, tile: Tile, products: str, splits: int, context: Context
) -> tuple[dict[str, ParamValue], int]:
    """Parameters of what is copied to scratch for a row or a tile, and its elements.

    Args:
        products: How products are made, as for `flip_of`.
        splits: Parts of the blocks of channels.
    """
    if gathers(product, context.target):
        return gathered_windows(product, tile)
    how = flip_of(product, row, tile, products, context).removesuffix(_NARROW)
    if how == _FLIP_TILES:
        kept, pixels = {"flip_rows": row.rows}, tile.pixels
    elif how == _FLIP_ROWS:
        kept, pixels = _kept_rows(product, row), product.width
    else:
        return {}, 0
    copy = kept | _flipped_rows(product, row, pixels, apart=splits > 1)
    return {**copy}, copy["run_down"] * kept["flip_rows"] + ROW_ALIGNMENT


def grouped_bytes(product: Product[Any], row: Im2colRow) -> int:
    """Bytes of a run as groups see them: computed weights are packed by groups of four.

    So are those of rows of one pixel, which leave half of a product of matrices idle.
    """
    return row.length if product.computed is None and product.width > 1 else 0
