"""Sliding-window geometry: output sizes and padding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

SameUpper = Literal["SAME_UPPER"]
AxisPadding = tuple[int, int] | SameUpper
# What lies around an image: elements before and after each of its axes; or the rule that there are
# as many windows as steps fit into the axis, with the odd element after it (ONNX's name of TFLite's
# SAME). Amounts follow from that rule only with the sizes, which a session may change.
Padding = tuple[tuple[int, int], ...] | SameUpper

SAME_UPPER: Final = "SAME_UPPER"
UNPADDED: Final = ((0, 0), (0, 0))


class Window(NamedTuple):
    """A window along one axis: taps, step between windows, step between taps."""

    size: int
    stride: int = 1
    dilation: int = 1

    @property
    def extent(self) -> int:
        """Elements from the first tap to the last, both included."""
        return (self.size - 1) * self.dilation + 1


def axis_padding(padding: Padding, axis: int) -> AxisPadding:
    """What lies around one of the axes that windows slide along."""
    return SAME_UPPER if padding == SAME_UPPER else padding[axis]


def output_size(padding: AxisPadding, size: int | None, window: Window) -> int | None:
    """Number of windows along an axis, None where the axis is unknown; 0 where none fits."""
    if size is None:
        return None
    if padding == SAME_UPPER:
        return -(-size // window.stride)
    before, after = padding
    return max(0, (before + size + after + window.stride - window.extent) // window.stride)


def padding_sizes(padding: AxisPadding, size: int, count: int, window: Window) -> tuple[int, int]:
    """Elements that `count` windows reach beyond the start and the end of an axis.

    What lies behind the last window is not among them.
    """
    reach = (count - 1) * window.stride + window.extent - size
    if padding == SAME_UPPER:
        total = max(0, reach)
        return total // 2, total - total // 2
    before, after = padding
    return before, min(after, max(0, reach - before))


def pads_as_same(padding: Padding, sizes: Sequence[int | None], windows: Sequence[Window]) -> bool:
    """Whether what lies around an image is what SAME_UPPER means for its sizes."""
    if padding == SAME_UPPER:
        return True
    if len(padding) != len(sizes) or len(sizes) != len(windows):
        return False
    return all(map(_pads_axis_as_same, padding, sizes, windows))


def _pads_axis_as_same(own: AxisPadding, size: int | None, window: Window) -> bool:
    if size is None:
        return False
    count, same = output_size(own, size, window), output_size(SAME_UPPER, size, window)
    if count is None or count != same:
        return False
    pads = [padding_sizes(each, size, count, window) for each in (own, SAME_UPPER)]
    return pads[0] == pads[1]


class Window2D(NamedTuple):
    """The windows of an image op: what lies around the image, and one window per axis."""

    padding: Padding
    rows: Window
    columns: Window

    @lru_cache(maxsize=4096)  # noqa: B019  (windows are plain values)
    def output(self, height: int | None, width: int | None) -> tuple[int | None, int | None]:
        """Number of windows down and across an image."""
        rows = output_size(axis_padding(self.padding, 0), height, self.rows)
        return rows, output_size(axis_padding(self.padding, 1), width, self.columns)

    @lru_cache(maxsize=4096)  # noqa: B019
    def pads(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Padding ((top, bottom), (left, right)) of an image."""
        rows, columns = self.output(height, width)
        return (
            padding_sizes(axis_padding(self.padding, 0), height, rows or 0, self.rows),
            padding_sizes(axis_padding(self.padding, 1), width, columns or 0, self.columns),
        )
