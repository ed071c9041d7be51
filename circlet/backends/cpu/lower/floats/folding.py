"""Neighbouring pixels as one pixel of more filters, where a layer has fewer filters than lanes.

Before: each pixel takes a vector of which most lanes are empty. After: `count` pixels share it;
their windows unite to one that is wider, with zeros where a filter does not look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from circlet.backends.cpu.lower.floats.matrix import FloatArray, Matrix, View
from circlet.backends.cpu.lower.floats.tiles import Registers, choose_tile, tile_slots, vectors_of
from circlet.backends.cpu.tuning.choices import Choice, always_there, joined

_MOST_VECTORS = 4
_WORTHWHILE = 0.95


def folded(matrix: Matrix, count: int) -> Iterator[Matrix]:
    """The matrices that compute `matrix`: `count` pixels as one, and what is left over."""
    if count == 1:
        yield matrix
        return
    images, height, width = matrix.sizes
    yield replace(
        matrix,
        source=_spaced(matrix.source, count),
        result=_spaced(matrix.result, count),
        addend=matrix.addend and _spaced(matrix.addend, count),
        add_channels=count * matrix.add_channels,
        sizes=(images, height, width // count),
        weights=_united(matrix, count),
        bias=None if matrix.bias is None else np.tile(matrix.bias, count),
    )
    if width % count:
        yield _columns_from(matrix, width - width % count)


def fold_of(matrix: Matrix, registers: Registers, lanes: int) -> Choice[int]:
    """How many pixels become one; folding has to gain something."""
    filters, width = len(matrix.weights), matrix.sizes[2]
    most = min(width, _MOST_VECTORS * lanes // filters) if _can_fold(matrix) else 1

    def slots(count: int) -> float:
        rows = ((width // count, count), (1, width % count))
        needed = sum(
            _row_slots(matrix, pixels, folds, registers, lanes) for pixels, folds in rows if folds
        )
        return needed if count > 1 else _WORTHWHILE * needed

    counts = sorted(range(1, most + 1), key=slots) if most > 1 else [1]
    return Choice(f"fold {joined(matrix.sizes)}", counts, slots, always_there)


def _row_slots(matrix: Matrix, pixels: int, count: int, registers: Registers, lanes: int) -> float:
    """Estimated time of `pixels` pixels in a row, each of them `count` of the layer's."""
    vectors = vectors_of(registers, count * len(matrix.weights), lanes)
    _, rows, columns, channels = matrix.weights.shape
    depth = rows * (columns + (count - 1) * _step(matrix)) * channels
    tile = choose_tile(registers, pixels, vectors, depth)
    return tile_slots(registers.costs, tile, pixels, vectors, depth)


def _can_fold(matrix: Matrix) -> bool:
    """Whether pixels follow each other without gaps, and so do their windows."""
    filters = len(matrix.weights)
    dense = [view.pixel == filters for view in (matrix.result, matrix.addend) if view]
    whole = matrix.addend is None or matrix.add_channels == filters
    plain, spread = matrix.groups == 1 and whole and all(dense), matrix.taps[1]
    return plain and spread > 0 and matrix.source.pixel % spread == 0


def _step(matrix: Matrix) -> int:
    """Columns of the window between neighbouring pixels."""
    return matrix.source.pixel // matrix.taps[1]


def _united(matrix: Matrix, count: int) -> FloatArray:
    filters, rows, columns, channels = matrix.weights.shape
    step = _step(matrix)
    shape = (count, filters, rows, columns + (count - 1) * step, channels)
    united = np.zeros(shape, np.float32)
    for pixel in range(count):
        united[pixel, :, :, pixel * step : pixel * step + columns] = matrix.weights
    return united.reshape(count * filters, *shape[2:])


def _spaced(view: View, count: int) -> View:
    return replace(view, pixel=count * view.pixel)


def _columns_from(matrix: Matrix, first: int) -> Matrix:
    images, height, width = matrix.sizes

    def moved(view: View) -> View:
        return replace(view, offset=view.offset + first * view.pixel)

    return replace(
        matrix,
        source=moved(matrix.source),
        result=moved(matrix.result),
        addend=matrix.addend and moved(matrix.addend),
        sizes=(images, height, width - first),
    )
