"""Layers of few filters, computed as fewer pixels of more filters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats.folding import fold_of, folded
from circlet.backends.cpu.lower.floats.matrix import Matrix, View
from circlet.backends.cpu.lower.floats.tiles import Registers
from circlet.ir import DType, Tensor

_REGISTERS, _LANES = Registers(32), 16


def _matrix(filters: int, window: int, width: int = 40, stride: int = 1) -> Matrix:
    image = Tensor("x", DType.FLOAT32, (1, width, stride * width + window, 4))
    result = Tensor("y", DType.FLOAT32, (1, width, width, filters))
    weights = np.arange(filters * window * window * 4, dtype=np.float32)
    return Matrix(
        source=View(image, 0, 0, 1000, 4 * stride),
        result=View(result, 0, 0, filters * width, filters),
        sizes=(1, width, width),
        weights=weights.reshape(filters, window, window, 4),
        bias=np.arange(filters, dtype=np.float32),
        taps=(1000, 4),
    )


def _folded(matrix: Matrix) -> list[Matrix]:
    (best, *_) = fold_of(matrix, _REGISTERS, _LANES).candidates
    return list(folded(matrix, best))


@pytest.mark.parametrize(("filters", "window"), [(3, 9), (4, 5), (8, 3), (2, 3)])
def test_few_filters_fill_the_lanes(filters: int, window: int) -> None:
    (first, *_) = _folded(_matrix(filters, window))
    assert filters < len(first.weights) <= 4 * _LANES
    assert first.result.pixel == len(first.weights)


@pytest.mark.parametrize(("filters", "window"), [(8, 1), (16, 3), (64, 3)])
def test_what_folding_would_slow_down_stays(filters: int, window: int) -> None:
    matrix = _matrix(filters, window)
    assert _folded(matrix) == [matrix]


def test_every_pixel_is_computed_once() -> None:
    parts = _folded(_matrix(3, 9, width=43))
    assert sum(part.sizes[2] * len(part.weights) for part in parts) == 43 * 3
    assert parts[1].result.offset == parts[0].sizes[2] * parts[0].result.pixel


def test_united_windows_hold_the_weights_where_each_pixel_looks() -> None:
    matrix = _matrix(8, 3, stride=2)
    (first, *_) = _folded(matrix)
    assert first.weights.shape == (16, 3, 5, 4)
    np.testing.assert_array_equal(first.weights[:8, :, :3], matrix.weights)
    np.testing.assert_array_equal(first.weights[8:, :, 2:], matrix.weights)
    assert not first.weights[:8, :, 3:].any() and not first.weights[8:, :, :2].any()


def test_pixels_with_gaps_between_them_stay() -> None:
    matrix = _matrix(3, 9)
    inside = replace(matrix, result=replace(matrix.result, pixel=8))
    assert _folded(inside) == [inside]
