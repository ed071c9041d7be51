"""Poolings of signals, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.formats.onnx.importers.unpooling import pooled_with_places
from circlet.formats.onnx.importers.windows import (
    as_image,
    as_signal,
    image_padding,
    padding_of,
    pair_of,
    planes_of,
    steps_of,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import floats, standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.reduce import ReducerAttrs

_FLOAT = 1  # its number in ONNX
_WINDOWS = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def _pool(node: Node, record: str) -> Tensor:
    x = node[0]
    rank, kernel = node.rank(x), node.ints("kernel_shape") or ()
    if len(kernel) != rank - 2 or rank not in (3, 4, 5):
        raise NotLoweredError("only signals, images and volumes are pooled so")
    if any(step != 1 for step in node.ints("dilations") or ()):
        raise NotLoweredError("poolings have no dilations")
    strides, padding = steps_of(node, "strides", rank - 2), padding_of(node, x.shape[2:], kernel)
    image = node.channels_last(as_image(node, x))
    around, lead = image_padding(padding), (1,) * (4 - rank)
    kernel, strides = (*lead, *kernel), (*lead, *strides)
    if node.whole("ceil_mode") and around != SAME_UPPER:
        around = _ceiled(node, image.shape[1:-1], around, kernel, strides)
    if record == "AVERAGE_POOL_2D" and node.whole("count_include_pad"):
        image, around = _filled_border(node, image, around)
    if rank == 5:
        return node.channels_first(_pooled_volume(node, record, image, (around, strides, kernel)))
    attrs = Pool2DAttrs(around, pair_of(strides), pair_of(kernel))
    return as_signal(node, node.channels_first(node.op(record, [image], attrs)), rank)


def _pooled_volume(
    node: Node, record: str, volume: Tensor, windows: tuple[Padding, Sequence[int], Sequence[int]]
) -> Tensor:
    """Planes pooled as images, then their pixels along the depth: windows are boxes."""
    around, strides, kernel = windows
    if around == SAME_UPPER:
        raise NotLoweredError("the padding of a volume depends on its sizes")
    flat = Pool2DAttrs(around[1:], pair_of(strides[1:]), pair_of(kernel[1:]))
    planes = node.op(record, [planes_of(node, volume)], flat)
    _, height, width, channels = (size or 0 for size in planes.shape)
    columns = node.reshape(planes, [-1, volume.shape[1] or 0, height * width, channels])
    deep = Pool2DAttrs((around[0], (0, 0)), (strides[0], 1), (kernel[0], 1))
    made = node.op(record, [columns], deep)
    return node.reshape(made, [-1, made.shape[1] or 0, height, width, channels])


def _ceiled(
    node: Node,
    sizes: Sequence[int | None],
    padding: Padding,
    kernel: Sequence[int],
    strides: Sequence[int],
) -> Padding:
    """Padding with which a last window that is not whole is one as well."""
    assert padding != SAME_UPPER
    made = []
    for size, (before, after), taps, stride in zip(sizes, padding, kernel, strides, strict=True):
        if size is None:
            raise NotLoweredError("incomplete windows count, and sizes are open")
        count = -(-(before + size + after - taps) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1
        made.append((before, max(after, (count - 1) * stride + taps - size - before)))
    if node.whole("count_include_pad") and tuple(made) != padding:
        raise NotLoweredError("padding counts, incomplete windows do not")
    return tuple(made)


def _filled_border(node: Node, image: Tensor, padding: Padding) -> tuple[Tensor, Padding]:
    """An image with its padding as pixels, which then count."""
    if padding == SAME_UPPER:
        raise NotLoweredError("padding that counts depends on sizes")
    if not any(map(any, padding)):
        return image, padding
    table = node.const([(0, 0), *padding, (0, 0)], np.int32)
    return node.op("PAD", [image, table]), ((0, 0),) * len(padding)


def _with_places(node: Node) -> list[Tensor]:
    rank, kernel = node.rank(node[0]), node.ints("kernel_shape") or ()
    if len(kernel) != rank - 2 or rank not in (3, 4):
        raise NotLoweredError("places are found in signals and images")
    if any(step != 1 for step in node.ints("dilations") or ()) or node.whole("ceil_mode"):
        raise NotLoweredError("windows that say places have no dilations, and are whole")
    strides = steps_of(node, "strides", rank - 2)
    return pooled_with_places(node, padding_of(node, node[0].shape[2:], kernel), strides, kernel)


@importer("MaxPool")
def _max_pool(node: Node) -> Tensor | list[Tensor]:
    if node.wants(1):
        return _with_places(node)
    stored = node[0].dtype
    if stored not in (DType.INT8, DType.UINT8):
        return _pool(node, "MAX_POOL_2D")
    # A byte without a scale is no operand of a pool; every byte is a float.
    wide = standard(node, "Cast", [node[0]], to=_FLOAT)
    return node.cast(standard(node, "MaxPool", [wide], **node.attributes), stored)


@importer("AveragePool")
def _average_pool(node: Node) -> Tensor:
    return _pool(node, "AVERAGE_POOL_2D")


@importer("LpPool")
def _lp_pool(node: Node) -> Tensor:
    """(taps * mean(|x|^p))^(1 / p): zeros around the image change no sum."""
    power = node.real("p", 2)
    given = {name: node.attributes[name] for name in _WINDOWS if name in node.attributes}
    powers = _to_power(node, node.op("ABS", [floats(node)]), power)
    means = standard(node, "AveragePool", [powers], count_include_pad=1, **given)
    taps = node.const(np.float32(prod(node.ints("kernel_shape") or ())))
    return _to_power(node, node.op("MUL", [means, taps]), 1 / power)


@importer("GlobalLpPool")
def _global_lp_pool(node: Node) -> Tensor:
    power, x = node.real("p", 2), floats(node)
    axes = node.const(range(2, node.rank(x)), np.int32)
    sums = node.op("SUM", [_to_power(node, node.op("ABS", [x]), power), axes], ReducerAttrs(True))
    return _to_power(node, sums, 1 / power)


def _to_power(node: Node, x: Tensor, power: float) -> Tensor:
    """What is not negative, to a power."""
    if power == 1:
        return x
    if power == 2:
        return node.op("MUL", [x, x])
    return (
        node.op("SQRT", [x]) if power == 0.5 else node.op("POW", [x, node.const(np.float32(power))])
    )


def _over_pixels(node: Node, record: str) -> Tensor:
    x = floats(node)
    axes = node.const(range(2, node.rank(x)), np.int32)
    return node.op(record, [x, axes], ReducerAttrs(True))


@importer("GlobalAveragePool")
def _global_average_pool(node: Node) -> Tensor:
    return _over_pixels(node, "MEAN")


@importer("GlobalMaxPool")
def _global_max_pool(node: Node) -> Tensor:
    return _over_pixels(node, "REDUCE_MAX")
