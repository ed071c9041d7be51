"""Work in parts gives what it gives at once."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ops import parts

random = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that small arrays have many of."""
    monkeypatch.setattr(parts, "_PART_PRODUCTS", 50)
    monkeypatch.setattr(parts, "_PART_ELEMENTS", 20)
    monkeypatch.setattr(parts, "_WHOLE_ELEMENTS", 30)
    for function in (parts.parts, parts.image_parts):
        monkeypatch.setattr(function, "__defaults__", (20,))


@pytest.mark.parametrize(
    ("left", "right"),
    [((9, 4), (4, 5)), ((3, 7, 4), (4, 5)), ((2, 1, 7, 4), (3, 4, 5)), ((1, 60), (60, 1))],
)
def test_products_in_parts_are_those_of_numpy(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    x, y = random.integers(-9, 9, left), random.integers(-9, 9, right)
    np.testing.assert_array_equal(parts.matmul(x, y), x @ y)


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 133])
def test_an_order_in_parts_is_stable(count: int) -> None:
    keys = random.integers(0, 9, count).astype(np.float32)
    keys[::7] = np.nan
    np.testing.assert_array_equal(parts.stable_order(keys), np.argsort(keys, kind="stable"))


def test_rows_in_parts_are_those_of_the_whole() -> None:
    values = random.normal(size=(3, 11, 8))

    def both(rows: np.ndarray) -> list[np.ndarray]:
        return [rows * 2, rows.argmax(axis=-1)]

    for got, wanted in zip(parts.by_rows(both, values), both(values), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "shapes", [[(5, 6, 7), (1, 6, 1)], [(40,), (1,)], [(3, 50)], [(100, 1), (2,)], [(2, 3), (3,)]]
)
def test_elements_in_parts_are_those_of_the_whole(shapes: list[tuple[int, ...]]) -> None:
    arrays = [random.normal(size=shape) for shape in shapes]
    (got,) = parts.elementwise(lambda some: [np.sum(np.broadcast_arrays(*some), axis=0)], arrays)  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, np.sum(np.broadcast_arrays(*arrays), axis=0))


@pytest.mark.parametrize("shape", [(1, 5, 3, 2), (2, 1, 30, 2), (1, 3, 25, 1), (1, 2, 2, 50)])
def test_images_in_parts_are_those_of_the_whole(shape: tuple[int, ...]) -> None:
    total, source = random.normal(size=shape), random.normal(size=shape)
    wanted = total + source * 3
    parts.add_scaled(total, source, np.array(3.0))
    np.testing.assert_array_equal(total, wanted)
