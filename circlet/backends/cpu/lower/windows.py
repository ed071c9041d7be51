"""Where the windows of a convolution, or the rows of a product, lie in memory."""

from __future__ import annotations

from typing import NamedTuple

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lowering import ParamValue
from circlet.ir import Op
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand

_SPLIT_BYTES = 1 << 18
_FEW_TASKS = 16


class Runs(NamedTuple):
    """How the taps of a window lie in memory, in bytes."""

    down: int
    across: int
    bytes: int
    step_down: int
    step_across: int

    @property
    def padded(self) -> int:
        """Bytes of a run filled up to whole groups of four."""
        return -(-self.bytes // 4) * 4

    def params(self) -> dict[str, ParamValue]:
        """The kernels' parameters of how runs lie, but for their length."""
        return {
            "run_down": self.step_down,
            "run_across": self.step_across,
            "runs_down": self.down,
            "runs_across": self.across,
        }


class Places(NamedTuple):
    """Where windows and outputs lie: images of rows of pixels, strides in elements."""

    rows: int
    image_rows: int
    row_pixels: int
    in_strides: tuple[int, int, int]
    out_strides: tuple[int, int, int]

    def params(self) -> dict[str, ParamValue]:
        """The kernels' parameters of these names."""
        in_batch, in_row, in_pixel = self.in_strides
        out_batch, out_row, out_pixel = self.out_strides
        return {
            "rows": self.rows,
            "image_rows": self.image_rows,
            "row_pixels": self.row_pixels,
            "in_batch": in_batch,
            "in_row": in_row,
            "in_pixel": in_pixel,
            "out_batch": out_batch,
            "out_row": out_row,
            "out_pixel": out_pixel,
        }


def runs_of(op: Op, data: Layout) -> Runs:
    """The runs of taps of a convolution."""
    return runs_in(window_of(op), data)


def runs_in(window: Window2D, data: Layout) -> Runs:
    """The longest runs of taps that are contiguous in the input's layout."""
    down, across = window.rows, window.columns
    step_down = down.dilation * data.row_stride
    if across.size > 1 and (across.dilation != 1 or data.pixel_stride != data.channels):
        step = across.dilation * data.pixel_stride
        return Runs(down.size, across.size, data.channels, step_down, step)
    length = across.size * data.channels
    if down.size > 1 and step_down == length:
        return Runs(1, 1, down.size * length, 0, 0)
    return Runs(down.size, 1, length, step_down, 0)


def places_of(op: Op, data: Layout, out: Layout) -> Places:
    """Windows and outputs of a convolution; even 1x1 images flow together into one row."""
    window = window_of(op)
    taps = window.rows.size * window.columns.size
    steps = window.rows.stride, window.columns.stride
    if taps == 1 and steps == (1, 1) and data.has_even_pixels and out.has_even_pixels:
        return Places(1, 1, out.pixels, (0, 0, data.pixel_stride), (0, 0, out.pixel_stride))
    in_strides = data.batch_stride, steps[0] * data.row_stride, steps[1] * data.pixel_stride
    out_strides = out.batch_stride, out.row_stride, out.pixel_stride
    return Places(out.batch * out.height, out.height, out.width, in_strides, out_strides)


def conv_border(op: Op) -> dict[int, Border]:
    """The border that SAME windows reach into."""
    _, height, width, _ = operand(op, 0).static_shape
    (top, bottom), (left, right) = window_of(op).pads(height, width)
    border = Border(top, left, bottom, right)
    return {0: border} if border else {}


def start_of(op: Op, data: Layout) -> int:
    """Where the first window starts, in elements from the first pixel."""
    border = conv_border(op).get(0, Border())
    return -(border.top * data.row_stride + border.left * data.pixel_stride)


def splits_of(blocks: int, block_bytes: int, tiles: int) -> int:
    """Parts of the weights: each stays in the cache, and there is work for every thread."""
    wanted = max(-(-blocks * block_bytes // _SPLIT_BYTES), -(-_FEW_TASKS // max(tiles, 1)))
    return min(wanted, blocks)
