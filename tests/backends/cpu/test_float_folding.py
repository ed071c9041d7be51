"""Layers of few filters, computed as fewer pixels of more filters."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats.epilogue import FloatEpilogue, FloatProduct
from circlet.backends.cpu.lower.floats.folding import fold_of, folded
from circlet.backends.cpu.lower.floats.tiles import Registers
from circlet.backends.cpu.lower.products.product import Product, View
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs

_REGISTERS, _LANES = Registers(32), 16


def _product(filters: int, window: int, width: int = 40, stride: int = 1) -> FloatProduct:
    made = builder()
    image = made.input("x", DType.FLOAT32, (1, width, stride * width + window, 4))
    weights = np.arange(filters * window * window * 4, dtype=np.float32)
    stored = weights.reshape(filters, window, window, 4)
    result = made.op("CONV_2D", [image, made.constant("w", stored)], Conv2DAttrs())
    (op,) = made.output(result).build().ops
    return Product(
        op,
        View(image, 0, 0, 1000, 4 * stride),
        View(result, 0, 0, filters * width, filters),
        (1, width, width),
        (filters, window, window, 4),
        (1000, 4),
        lambda: stored,
        FloatEpilogue(np.arange(filters, dtype=np.float32)),
    )


def _folded(product: FloatProduct) -> list[FloatProduct]:
    (best, *_) = fold_of(product, _REGISTERS, _LANES).candidates
    return list(folded(product, best))


@pytest.mark.parametrize(("filters", "window"), [(3, 9), (4, 5), (8, 3), (2, 3)])
def test_few_filters_fill_the_lanes(filters: int, window: int) -> None:
    (first, *_) = _folded(_product(filters, window))
    assert filters < first.filters <= 4 * _LANES
    assert first.result.pixel == first.filters


@pytest.mark.parametrize(("filters", "window"), [(8, 1), (16, 3), (64, 3)])
def test_what_folding_would_slow_down_stays(filters: int, window: int) -> None:
    product = _product(filters, window)
    assert _folded(product) == [product]


def test_every_pixel_is_computed_once() -> None:
    parts = _folded(_product(3, 9, width=43))
    assert sum(part.sizes[2] * part.filters for part in parts) == 43 * 3
    assert parts[1].result.offset == parts[0].sizes[2] * parts[0].result.pixel


def test_united_windows_hold_the_weights_where_each_pixel_looks() -> None:
    product = _product(8, 3, stride=2)
    (first, *_) = _folded(product)
    united = first.weights()
    assert united.shape == first.shape == (16, 3, 5, 4)
    np.testing.assert_array_equal(united[:8, :, :3], product.weights())
    np.testing.assert_array_equal(united[8:, :, 2:], product.weights())
    assert not united[:8, :, 3:].any() and not united[8:, :, :2].any()


def test_pixels_with_gaps_between_them_stay() -> None:
    product = _product(3, 9)
    inside = product._replace(result=product.result._replace(pixel=8))
    assert _folded(inside) == [inside]
