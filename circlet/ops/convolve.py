"""Sums of products over image windows, as matrix products of numpy arrays.

Images are [batch, height, width, channels]. Data may be float32, or whole numbers held in
float64: their sums are exact below 2**53, and run through BLAS.
"""

from __future__ import annotations

import numpy as np

from circlet.ops.geometry import Window2D
from circlet.ops.parts import add_scaled, image_parts, matmul
from circlet.ops.taps import taps

Array = np.ndarray
_PART = 1 << 24  # elements of an image that one product takes or gives


def convolve(data: Array, weights: Array, window: Window2D) -> Array:
    """Sums over weights [filters, h, w, depth]; fewer depths than channels means groups."""
    groups = data.shape[3] // weights.shape[3]
    if groups == 1:
        return _convolve_group(data, weights, window)
    parts = zip(np.split(data, groups, axis=3), np.split(weights, groups), strict=True)
    return np.concatenate([_convolve_group(x, w, window) for x, w in parts], axis=3)


def convolve_depthwise(data: Array, weights: Array, window: Window2D) -> Array:
    """Sums over weights [1, h, w, channels * multiplier], each channel by itself."""
    channels = data.shape[3]
    filters = weights.reshape(*weights.shape[1:3], channels, -1)
    total = _image(data, window, (channels, filters.shape[3]))
    for tap in taps(window, _sizes(data), _sizes(total)):
        source = data[:, *tap.pixels, :, None]
        add_scaled(total[:, *tap.windows], source, filters[tap.position])
    return total.reshape(*total.shape[:3], weights.shape[3])


def convolve_transposed(
    data: Array, weights: Array, window: Window2D, sizes: tuple[int, int]
) -> Array:
    """Adds each pixel times weights [filters, h, w, depth] into an image of `sizes`."""
    total = np.zeros((data.shape[0], *sizes, weights.shape[0]), data.dtype)
    for tap in taps(window, sizes, _sizes(data)):
        y, x = tap.position
        _add_projected(total[:, *tap.pixels], data[:, *tap.windows], weights[:, y, x])
    return total


def _convolve_group(data: Array, weights: Array, window: Window2D) -> Array:
    total = _image(data, window, (weights.shape[0],))
    for tap in taps(window, _sizes(data), _sizes(total)):
        y, x = tap.position
        _add_projected(total[:, *tap.windows], data[:, *tap.pixels], weights[:, y, x])
    return total


def _add_projected(total: Array, pixels: Array, weights: Array) -> None:
    for part in image_parts(max(total, pixels, key=np.size), _PART):
        total[:, *part] += _project(pixels[:, *part], weights)


def _project(pixels: Array, weights: Array) -> Array:
    """Pixels [..., depth] times weights [filters, depth], as one matrix product."""
    flat = np.ascontiguousarray(pixels).reshape(-1, pixels.shape[-1])
    return matmul(flat, weights.T).reshape(*pixels.shape[:-1], len(weights))


def _image(data: Array, window: Window2D, channels: tuple[int, ...]) -> Array:
    rows, columns = window.output(*_sizes(data))
    return np.zeros((data.shape[0], rows or 0, columns or 0, *channels), data.dtype)


def _sizes(image: Array) -> tuple[int, int]:
    return image.shape[1], image.shape[2]
