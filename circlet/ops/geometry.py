"""Sliding-window geometry: output sizes and padding of SAME and VALID windows."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Window(NamedTuple):
    """A window along one axis: taps, step between windows, step between taps."""

    size: int
    stride: int = 1
    dilation: int = 1

    @property
    def extent(self) -> int:
        """Elements from the first tap to the last, both included."""
        return (self.size - 1) * self.dilation + 1


def output_size(padding: str, size: int | None, window: Window) -> int | None:
    """Number of windows along an axis, None where the axis is unknown; 0 where none fits."""
    if size is None:
        return None
    if padding == "SAME":
        return -(-size // window.stride)
    return max(0, (size + window.stride - window.extent) // window.stride)


def padding_sizes(padding: str, size: int, count: int, window: Window) -> tuple[int, int]:
    """Elements that `count` windows reach beyond the start and the end of an axis.

    VALID windows that leave a rest unread give (0, 0).
    """
    if padding != "SAME":
        return 0, 0
    total = max(0, (count - 1) * window.stride + window.extent - size)
    return total // 2, total - total // 2


class Window2D(NamedTuple):
    """The windows of an image op: a padding scheme and one window per axis."""

    padding: str
    rows: Window
    columns: Window

    @lru_cache(maxsize=4096)  # noqa: B019  (windows are plain values)
    def output(self, height: int | None, width: int | None) -> tuple[int | None, int | None]:
        """Number of windows down and across an image."""
        rows = output_size(self.padding, height, self.rows)
        return rows, output_size(self.padding, width, self.columns)

    @lru_cache(maxsize=4096)  # noqa: B019
    def pads(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Padding ((top, bottom), (left, right)) of an image."""
        rows, columns = self.output(height, width)
        return (
            padding_sizes(self.padding, height, rows or 0, self.rows),
            padding_sizes(self.padding, width, columns or 0, self.columns),
        )
