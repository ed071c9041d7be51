"""Reductions over image windows; padding takes no part in any of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlet.ops.geometry import Window2D
from circlet.ops.parts import image_parts
from circlet.ops.taps import taps

Array = np.ndarray


def maximum(data: Array, window: Window2D) -> Array:
    """The largest value of each window."""
    low = -np.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).min
    total = _start(data, window, low)
    for target, source in _pairs(total, data, window):
        np.maximum(target, source, out=target)
    return total


def average(data: Array, window: Window2D) -> Array:
    """The mean of each window; integers are rounded to nearest, halves away from zero."""
    sizes = _window_sizes(data, window)
    if data.dtype.kind == "f":
        mean: Array = _sum(data, window) / sizes.astype(data.dtype)
        return mean
    total = _sum(data.astype(np.int32), window)
    shifted = np.abs(total) + sizes // 2
    rounded: Array = np.sign(total) * (shifted // sizes)
    return rounded


def l2_norm(data: Array, window: Window2D) -> Array:
    """The root of the mean square of each window."""
    squares = _sum(data * data, window) / _window_sizes(data, window).astype(data.dtype)
    root: Array = np.sqrt(squares)
    return root


def _sum(data: Array, window: Window2D) -> Array:
    total = _start(data, window, 0)
    for target, source in _pairs(total, data, window):
        target += source
    return total


def _window_sizes(data: Array, window: Window2D) -> Array:
    """How many real pixels each window holds, [1, rows, columns, 1]."""
    return _sum(np.ones((1, *data.shape[1:3], 1), np.int32), window)


def _start(data: Array, window: Window2D, value: float) -> Array:
    rows, columns = window.output(data.shape[1], data.shape[2])
    shape = (data.shape[0], rows or 0, columns or 0, data.shape[3])
    return np.full(shape, value, data.dtype)


def _pairs(total: Array, data: Array, window: Window2D) -> Iterator[tuple[Array, Array]]:
    """For each tap, in parts: the outputs whose tap meets a real pixel, and those pixels."""
    sizes, counts = (data.shape[1], data.shape[2]), (total.shape[1], total.shape[2])
    for tap in taps(window, sizes, counts):
        target, source = total[:, *tap.windows], data[:, *tap.pixels]
        for part in image_parts(target):
            yield target[:, *part], source[:, *part]
