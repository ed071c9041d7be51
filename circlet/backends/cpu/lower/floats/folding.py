"""Neighbouring pixels as one pixel of more filters, where a layer has fewer filters than lanes.

Before: each pixel takes a vector of which most lanes are empty. After: `count` pixels share it;
their windows unite to one that is wider, with zeros where a filter does not look.

    pixel 0  w0 w1 w2 .           The zeros cost multiply-adds, the shared vector saves them:
    pixel 1  .  w0 w1 w2          the cost model says for which `count` that gains most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from circlet.backends.cpu.lower.floats.epilogue import FloatArray, FloatProduct
from circlet.backends.cpu.lower.floats.tiles import Registers, choose_tile, vectors_of
from circlet.backends.cpu.lower.products.product import View
from circlet.backends.cpu.tuning.knobs import Knob, always_there, joined

_MOST_VECTORS = 4
_WORTHWHILE = 0.95


def folded(product: FloatProduct, count: int) -> Iterator[FloatProduct]:
    """The products that compute `product`: `count` pixels as one, and what is left over."""
    if count == 1:
        yield product
        return
    (images, height, width), epilogue = product.sizes, product.epilogue
    filters, rows, columns, channels = product.shape
    united = columns + (count - 1) * _step(product)
    yield product._replace(
        source=_stretched(product.source, count),
        result=_stretched(product.result, count),
        sizes=(images, height, width // count),
        shape=(count * filters, rows, united, channels),
        weights=partial(_united, product, count),
        epilogue=replace(
            epilogue,
            bias=None if epilogue.bias is None else np.tile(epilogue.bias, count),
            addend=epilogue.addend and _stretched(epilogue.addend, count),
            add_channels=count * epilogue.add_channels,
        ),
    )
    if width % count:
        yield _columns_from(product, width - width % count)


def fold_of(product: FloatProduct, registers: Registers, lanes: int) -> Knob[int]:
    """How many pixels become one; folding has to gain something."""
    filters, width = product.filters, product.width
    most = min(width, _MOST_VECTORS * lanes // filters) if _can_fold(product) else 1

    def cycles(count: int) -> float:
        rows = ((width // count, count), (1, width % count))
        needed = sum(
            _row_cycles(product, pixels, folds, registers, lanes) for pixels, folds in rows if folds
        )
        return needed if count > 1 else _WORTHWHILE * needed

    counts = sorted(range(1, most + 1), key=cycles) if most > 1 else [1]
    return Knob(f"fold {joined(product.sizes)}", counts, cycles, always_there)


def _row_cycles(
    product: FloatProduct, pixels: int, count: int, registers: Registers, lanes: int
) -> float:
    """Predicted time of `pixels` pixels in a row, each of them `count` of the layer's."""
    vectors = vectors_of(registers, count * product.filters, lanes)
    _, rows, columns, channels = product.shape
    depth = rows * (columns + (count - 1) * _step(product)) * channels
    tile = choose_tile(registers, pixels, vectors, depth)
    return registers.row_cycles(tile, pixels, vectors, depth)


def _can_fold(product: FloatProduct) -> bool:
    """Whether pixels follow each other without gaps, and so do their windows."""
    filters, epilogue = product.filters, product.epilogue
    dense = [view.pixel == filters for view in (product.result, epilogue.addend) if view]
    whole = epilogue.addend is None or epilogue.add_channels == filters
    plain, column = product.groups == 1 and whole and all(dense), product.taps[1]
    return plain and column > 0 and product.source.pixel % column == 0


def _step(product: FloatProduct) -> int:
    """Columns of the window between neighbouring pixels."""
    return product.source.pixel // product.taps[1]


def _united(product: FloatProduct, count: int) -> FloatArray:
    filters, rows, columns, channels = product.shape
    step, weights = _step(product), product.weights()
    shape = (count, filters, rows, columns + (count - 1) * step, channels)
    united = np.zeros(shape, np.float32)
    for pixel in range(count):
        united[pixel, :, :, pixel * step : pixel * step + columns] = weights
    return united.reshape(count * filters, *shape[2:])


def _stretched(view: View, count: int) -> View:
    return view._replace(pixel=count * view.pixel)


def _columns_from(product: FloatProduct, first: int) -> FloatProduct:
    (images, height, width), epilogue = product.sizes, product.epilogue
    addend = epilogue.addend and epilogue.addend.moved(first * epilogue.addend.pixel)
    return product._replace(
        source=product.source.moved(first * product.source.pixel),
        result=product.result.moved(first * product.result.pixel),
        sizes=(images, height, width - first),
        epilogue=replace(epilogue, addend=addend),
    )
