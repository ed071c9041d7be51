"""Places of the largest elements of windows, and elements put back to them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.formats.onnx.importers.windows import (
    as_image,
    as_signal,
    image_padding,
    pair_of,
    steps_of,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import counting, recorded, resized, size_of
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.mediapipe.pooling import ArgmaxPoolAttrs

_LEAST = np.finfo(np.float32).min
_MOST_PLACES = 1 << 31  # of one image, as INT32


def pooled_with_places(
    node: Node, padding: Padding, strides: Sequence[int], kernel: Sequence[int]
) -> list[Tensor]:
    """The largest of windows over images or signals, and where each lies in the whole tensor."""
    x, rank = node[0], node.rank(node[0])
    around = image_padding(padding)
    if x.dtype is not DType.FLOAT32 or None in x.shape[1:] or around == SAME_UPPER:
        raise NotLoweredError("places are found in FLOAT32 of known sizes and padding")
    image = node.channels_last(as_image(node, x))
    sizes = [size or 0 for size in image.shape[1:]]
    if prod(sizes) >= _MOST_PLACES:
        raise NotLoweredError("INT32 does not count so many places")
    if any(map(any, around)):
        table = node.const([(0, 0), *around, (0, 0)], np.int32)
        image = node.op("PADV2", [image, table, node.const(_LEAST)])
    window = ArgmaxPoolAttrs("VALID", pair_of(strides), pair_of(kernel))
    kinds = [DType.FLOAT32, DType.FLOAT32]
    largest, taps = node.many("CUSTOM", [image], window, kinds, "MaxPoolingWithArgmax2D")
    first = (around[0][0], around[1][0])
    places = node.cast(_places(node, taps, sizes, window, first), DType.INT64)
    if x.shape[0] != 1:
        number = node.cast(counting(node, size_of(node, x, 0)), DType.INT64)
        begin = node.op("MUL", [number, node.const(prod(sizes), np.int64)])
        places = node.op("ADD", [places, resized(node, begin, [-1, 1, 1, 1])])
    return [as_signal(node, node.channels_first(made), rank) for made in (largest, places)]


def _places(
    node: Node,
    taps: Tensor,
    sizes: Sequence[int],
    window: ArgmaxPoolAttrs,
    first: tuple[int, int],
) -> Tensor:
    """INT32 places in an image, channels first, of numbers of taps, which count row by row.

    Args:
        sizes: Height, width and channels of the image.
        first: How far the first window begins before it, down and across.
    """
    height, width, channels = sizes
    down, across = (1, height) if node.whole("storage_order") else (width, 1)
    tap, columns = node.cast(taps, DType.INT32), window.kernel_shape[1]
    # A row of taps further is `down` in place of as many steps across as it has columns.
    row = node.op("FLOOR_DIV", [tap, node.const(columns, np.int32)])
    rows = node.op("MUL", [row, node.const(down - columns * across, np.int32)])
    inside = node.op("ADD", [node.op("MUL", [tap, node.const(across, np.int32)]), rows])
    counts = [size or 0 for size in taps.shape[1:3]]
    begins = (np.arange(n) * s - f for n, s, f in zip(counts, window.strides, first, strict=True))
    row_begin, column_begin = np.meshgrid(*begins, indexing="ij")
    corner = (row_begin * down + column_begin * across)[..., None]
    made = node.op("ADD", [inside, node.const(corner, np.int32)])
    return node.op("ADD", [made, node.const(np.arange(channels) * height * width, np.int32)])


@importer("MaxUnpool")
def _max_unpool(node: Node) -> Tensor:
    """Elements scattered over zeros that lie flat; a larger result has a border behind."""
    x, kernel = node[0], node.ints("kernel_shape") or ()
    if None in x.shape or node.rank(x) != len(kernel) + 2:
        raise NotLoweredError("sizes are open, or not one for each axis")
    strides = steps_of(node, "strides", len(kernel))
    pads = node.ints("pads") or (0,) * (2 * len(kernel))
    cut = [sum(pads[axis :: len(kernel)]) for axis in range(len(kernel))]
    spatial = [
        (size - 1) * stride + taps - off
        for size, stride, taps, off in zip(x.static_shape[2:], strides, kernel, cut, strict=True)
    ]
    sizes = [*x.static_shape[:2], *spatial]
    wanted = sizes if node.optional(2) is None else list(node.known_ints(2) or ())
    if min(sizes) < 1 or len(wanted) != len(sizes) or any(np.less(wanted, sizes)):
        raise NotLoweredError("the size of the result is computed, or too small")
    zero, count = node.const(0, x.dtype.numpy), node.const([prod(sizes)], np.int32)
    zeros = node.op("FILL", [count, zero], dtype=x.dtype)
    given = [zeros, resized(node, node[1], [-1]), resized(node, x, [-1])]
    made = recorded(node, "ScatterElements", given, [(x.dtype, (prod(sizes),))], axis=0)[0]
    made = resized(node, made, sizes)
    if wanted == sizes:
        return made
    border = [(0, more) for more in np.subtract(wanted, sizes)]
    return node.op("PAD", [made, node.const(border, np.int32)])
