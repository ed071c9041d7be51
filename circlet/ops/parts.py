"""Long numpy work in parts of bounded work, with a look between them whether the run is to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from circlet.ops.guard import look

_PART_PRODUCTS = 1 << 28  # multiply-accumulates of a matrix product
_PART_ELEMENTS = 1 << 22  # that are visited a few times each
_WHOLE_ELEMENTS = 1 << 24  # of operands that a function of elements visits at once

Array = np.ndarray


def parts(count: int, work: int, most: int = _PART_ELEMENTS) -> Iterator[slice]:
    """Slices of `count` rows of so much work each; looks before each whether the run is to end."""
    step = max(1, most // max(work, 1))
    for start in range(0, count, step):
        look()
        yield slice(start, min(start + step, count))


def centred(stored: Array, zero: int) -> Array:
    """Stored numbers less their zero point, in double precision."""
    result = np.empty(stored.shape, np.float64)
    source, target = stored.reshape(-1), result.reshape(-1)
    for part in parts(stored.size, 1):
        np.subtract(source[part], zero, out=target[part], dtype=np.float64)
    return result


def matmul(left: Array, right: Array) -> Array:
    """The matrix product of arrays as `numpy.matmul` gives it, in parts where it is long."""
    depth, columns = right.shape[-2:]
    shape = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], columns)
    if prod(shape) * depth <= _PART_PRODUCTS:
        look()
        whole: Array = np.matmul(left, right)
        return whole
    result = np.empty(shape, np.result_type(left, right))
    _fill_product(result, left, right)
    return result


def _fill_product(result: Array, left: Array, right: Array) -> None:
    depth = right.shape[-2]
    each = prod(result.shape[1:]) * depth
    if result.ndim == 2:
        for rows in parts(len(result), each, _PART_PRODUCTS):
            np.matmul(left[rows], right, out=result[rows])
        return
    sides = [_stacked(side, result.ndim) for side in (left, right)]
    for rows in parts(len(result), each, _PART_PRODUCTS):
        pair = [side if len(side) == 1 else side[rows] for side in sides]
        if each <= _PART_PRODUCTS:
            np.matmul(pair[0], pair[1], out=result[rows])
        else:
            _fill_product(result[rows.start], pair[0][0], pair[1][0])


def _stacked(side: Array, rank: int) -> Array:
    return side.reshape((1,) * (rank - side.ndim) + side.shape)


def image_parts(image: Array, most: int = _PART_ELEMENTS) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of images [batch, rows, columns, ...], some of them at a time."""
    row = image[:, :1].size
    for rows in parts(image.shape[1], row, most):
        if row <= most:
            yield rows, slice(None)
            continue
        for columns in parts(image.shape[2], image[:, :1, :1].size, most):
            yield rows, columns


def add_scaled(total: Array, source: Array, factor: Array) -> None:
    """Adds images times a factor to others, a part of them at a time."""
    for part in image_parts(total):
        total[:, *part] += source[:, *part] * factor


def elementwise(
    evaluate: Callable[[Sequence[Array | None]], list[Array]], arrays: Sequence[Array | None]
) -> list[Array]:
    """The one result of a function of elements of operands that broadcast, of some at a time."""
    given = [array for array in arrays if array is not None]
    try:
        shape = np.broadcast_shapes(*(array.shape for array in given))
    except ValueError:
        return evaluate(arrays)  # which says it better
    if prod(shape) <= _WHOLE_ELEMENTS or len(given) != len(arrays):
        return evaluate(arrays)
    axis = next(k for k in range(len(shape)) if prod(shape[k + 1 :]) <= _PART_ELEMENTS)
    spread = [np.broadcast_to(array, shape) for array in given]
    result: Array | None = None
    for place in np.ndindex(*shape[:axis]):
        for part in parts(shape[axis], prod(shape[axis + 1 :])):
            (some,) = evaluate([array[*place, part] for array in spread])
            result = np.empty(shape, some.dtype) if result is None else result
            result[*place, part] = some
    assert result is not None
    return [result]


def by_rows(
    evaluate: Callable[[Array], Sequence[Array]], values: Array, work: int = 1
) -> list[Array]:
    """The results of a function of rows along the last axis, called for some of them at a time."""
    columns = values.shape[-1] if values.ndim else 0
    if values.ndim < 2 or values.size * work <= _PART_ELEMENTS:
        return list(evaluate(values))
    rows = values.reshape(-1, columns)
    made: list[Array] = []
    for part in parts(len(rows), columns * work):
        some = evaluate(rows[part])
        made = made or [np.empty((len(rows), *array.shape[1:]), array.dtype) for array in some]
        for whole, array in zip(made, some, strict=True):
            whole[part] = array
    return [array.reshape(*values.shape[:-1], *array.shape[1:]) for array in made]


def stable_order(keys: Array) -> Array:
    """The order that sorts a list, equal elements as they stand; NaN last.

    Runs are sorted by themselves and then merged in pairs, as `numpy.argsort` cannot be stopped.
    """
    runs = [
        part.start + np.argsort(keys[part], kind="stable")
        for part in parts(len(keys), 1, _PART_ELEMENTS)
    ]
    while len(runs) > 1:
        pairs = zip(runs[::2], runs[1::2], strict=False)
        merged = [_merged(keys, *pair) for pair in pairs]
        runs = merged + (runs[-1:] if len(runs) % 2 else [])
    return runs[0] if runs else np.empty(0, np.int64)


def _merged(keys: Array, first: Array, second: Array) -> Array:
    """Two sorted runs as one; of equal elements those of the first run come first."""
    result = np.empty(len(first) + len(second), np.int64)
    sorted_keys = keys[first], keys[second]
    for run, own, other, side in (
        (first, *sorted_keys, "left"),
        (second, *reversed(sorted_keys), "right"),
    ):
        for part in parts(len(run), 1):
            ahead = np.searchsorted(other, own[part], side)
            result[np.arange(part.start, part.stop) + ahead] = run[part]
    return result
