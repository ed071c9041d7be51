"""Which pixels each tap of a window meets, with no padded copy of the image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from circlet.ops.geometry import Window, Window2D


class Tap(NamedTuple):
    """One tap of a 2-D window, and where it meets real pixels.

    Attributes:
        position: Row and column in the window.
        windows: The rows and columns of windows whose tap meets a pixel.
        pixels: The rows and columns of those pixels, in the same order.
    """

    position: tuple[int, int]
    windows: tuple[slice, slice]
    pixels: tuple[slice, slice]


def taps(window: Window2D, sizes: tuple[int, int], counts: tuple[int, int]) -> Iterator[Tap]:
    """Every tap that meets a pixel of an image of `sizes` in some of `counts` windows."""
    (top, _), (left, _) = window.pads(*sizes)
    down = list(_axis_taps(window.rows, top, sizes[0], counts[0]))
    across = list(_axis_taps(window.columns, left, sizes[1], counts[1]))
    for y, rows, pixel_rows in down:
        for x, columns, pixel_columns in across:
            yield Tap((y, x), (rows, columns), (pixel_rows, pixel_columns))


def _axis_taps(
    axis: Window, before: int, size: int, count: int
) -> Iterator[tuple[int, slice, slice]]:
    """Along one axis: tap, windows `o` with 0 <= o * stride + offset < size, their pixels."""
    for tap in range(axis.size):
        offset = tap * axis.dilation - before
        first = max(0, -(offset // axis.stride))
        last = min(count, (size - 1 - offset) // axis.stride + 1)
        if last <= first:
            continue
        start = first * axis.stride + offset
        stop = start + (last - first - 1) * axis.stride + 1
        yield tap, slice(first, last), slice(start, stop, axis.stride)
