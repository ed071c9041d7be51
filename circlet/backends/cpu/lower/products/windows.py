"""Convolutions as products: where windows of an image lie in its layout."""

from __future__ import annotations

from math import gcd
from typing import TypeVar

from circlet.backends.cpu.abi import LINE_BYTES
from circlet.backends.cpu.layout import Border, Layout, bordered, nhwc
from circlet.backends.cpu.lower.products.product import Product, Shape, Sizes, View, Weights
from circlet.backends.cpu.lowering import Context
from circlet.ir import Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand

E = TypeVar("E")

SPLIT_BYTES = 1 << 18  # of weights that stay in the cache
_FEW_TASKS, _MANY_TASKS = 16, 48
_WORTHWHILE_BYTES = 1 << 14
_CACHE_SETS, _CACHE_WAYS = 64, 8  # of the first level, of most CPUs


def conv_border(op: Op) -> dict[int, Border]:
    """The border that the windows of a convolution reach into."""
    _, height, width, _ = nhwc(operand(op, 0).static_shape)
    (top, bottom), (left, right) = window_of(op).pads(height, width)
    border = Border(top, left, bottom, right)
    return {0: border} if border else {}


def depthwise_border(op: Op) -> dict[int, Border]:
    """The border that the windows of a depthwise convolution reach into, its pixels apart."""
    border = conv_border(op).get(0)
    if border is None:
        return {}
    image = operand(op, 0)
    width = border.left + image.static_shape[2] + border.right
    return {0: border._replace(channels=pixel_gap(image, width, window_of(op).rows.size))}


def multiplier_of(op: Op) -> int:
    """Filters of each channel of the input of a depthwise convolution."""
    return operand(op, 1).static_shape[3] // operand(op, 0).static_shape[3]


def why_not_repeated(op: Op) -> str | None:
    """Why kernels do not repeat channels for the filters that they have, or None."""
    count = multiplier_of(op)
    return "a depth multiplier that is no power of two" if count & (count - 1) else None


def pixel_gap(image: Tensor, width: int, rows: int) -> int:
    """Elements to leave behind every pixel of an image that depthwise windows cover.

    Of every pixel a line is read at a time, and lines are read again by the next row of windows.
    At distances of powers of two they would meet in few sets of the first cache, and drive each
    other out; a line behind every pixel spreads them over all sets.

    Args:
        image: The image.
        width: Pixels of its rows, padding included.
        rows: Of the window.
    """
    size_bytes = image.dtype.bits // 8
    lines, left = divmod(image.static_shape[3] * size_bytes, LINE_BYTES)
    if left or lines % 2 or not lines:
        return 0
    sets = _CACHE_SETS // gcd(lines, _CACHE_SETS)
    is_held = (rows + 1) * width <= sets * _CACHE_WAYS
    return 0 if is_held else LINE_BYTES // size_bytes


def image_layout(op: Op, context: Context) -> Layout:
    """Where the image is; a constant one stands inside the border that windows reach into."""
    image = operand(op, 0)
    if image.is_constant:
        return bordered(image, conv_border(op).get(0, Border()))
    return context.layout(image)


def first_taps(op: Op, data: Layout) -> View:
    """The input at the first tap of each output pixel of a convolution."""
    window, border = window_of(op), conv_border(op).get(0, Border())
    offset = -(border.top * data.row_stride + border.left * data.pixel_stride)
    return View(operand(op, 0), offset, *window_strides(window, data))


def window_strides(window: Window2D, data: Layout) -> tuple[int, int, int]:
    """Input elements between images, and between windows of output rows and of pixels."""
    row, pixel = window.rows.stride * data.row_stride, window.columns.stride * data.pixel_stride
    return data.batch_stride, row, pixel


def tap_strides(window: Window2D, data: Layout) -> tuple[int, int]:
    """Input elements between rows and between columns of a window."""
    rows, columns = window.rows, window.columns
    return rows.dilation * data.row_stride, columns.dilation * data.pixel_stride


def is_pointwise(window: Window2D) -> bool:
    """Whether every input pixel is a window."""
    down, across = window.rows, window.columns
    return down.size == down.stride == across.size == across.stride == 1


def conv_sizes(window: Window2D, data: Layout, out: Layout) -> Sizes:
    """Images, rows, pixels; one long row where windows are points and pixels are even."""
    if is_pointwise(window) and data.has_even_pixels and out.has_even_pixels:
        return 1, 1, out.pixels
    return out.batch, out.height, out.width


def convolution(
    op: Op,
    context: Context,
    weights: tuple[Shape, Weights],
    epilogue: E,
    *,
    image: Layout | None = None,
    result: Tensor | None = None,
) -> Product[E]:
    """A CONV_2D of an image of another layout, or into another result, where these are given."""
    shape, values = weights
    data = image_layout(op, context) if image is None else image
    written = op.outputs[0] if result is None else result
    out, window = context.layout(written), window_of(op)
    return Product(
        op,
        first_taps(op, data),
        View.whole(written, out),
        conv_sizes(window, data, out),
        shape,
        tap_strides(window, data),
        values,
        epilogue,
    )


def splits_of(blocks: int, block_bytes: int, tiles: int) -> int:
    """Parts of the weights: each stays in the cache, and there is work for every thread.

    What a task does once for all of its blocks is done again in each part, so parts for evenly
    shared work on many threads are not small.
    """
    size, tiles = blocks * block_bytes, max(tiles, 1)
    cached, few, many = -(-size // SPLIT_BYTES), -(-_FEW_TASKS // tiles), -(-_MANY_TASKS // tiles)
    even = min(many, blocks // 2, size // _WORTHWHILE_BYTES)
    return min(max(cached, few, even), blocks)
