"""Kinds that sample images at places that are computed: regions, and displaced windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.errors import GraphError, InputError
from circlet.ops.onnx.record import MANY, OnnxAttrs, onnx_kind
from circlet.words import counted

Array = np.ndarray
_FAR = 1e9  # pixels from the first one, where no region may reach


def _refused(why: str) -> InputError:
    return InputError("an operand holds what the operation does not allow", why=why)


def _corners(place: Array, size: int) -> list[tuple[Array, Array]]:
    """The two neighbours of places on an axis and their shares; the border is repeated."""
    at = np.maximum(place, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    share = np.where(low == size - 1, 0, at - low)
    return [(low, 1 - share), (np.minimum(low + 1, size - 1), share)]


def _grid(start: Any, extent: Any, bins: int, ratio: int) -> tuple[Array, int]:
    """Places of the samples of all bins along an axis, and how many a bin has."""
    count = ratio if ratio > 0 else max(int(np.ceil(extent / bins)), 0)
    if count > MANY:
        raise _refused(
            f"a part of a region has {counted(count, 'sample')} along an axis, and {MANY} may be"
        )
    steps = (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / max(count, 1)).reshape(-1)
    return start + steps * (extent / bins), count


def is_half_pixel(attrs: OnnxAttrs) -> bool:
    """Whether pixel 0 of a RoiAlign's image has its middle at 0, as from operator set 16 on."""
    mode = attrs.get("coordinate_transformation_mode", "half_pixel")
    return bool(attrs.opset >= 16 and mode == "half_pixel")


def _aligned(attrs: OnnxAttrs, image: Array, roi: Array) -> Array:
    """One region of an image [channels, height, width], sampled between pixels."""
    is_half = is_half_pixel(attrs)
    bins = attrs.get("output_height", 1), attrs.get("output_width", 1)
    if not (np.abs(roi) < _FAR).all():
        raise _refused("a region is not near the image")
    left, top, right, bottom = roi.astype(np.float64) * attrs.get("spatial_scale", 1.0) - (
        0.5 if is_half else 0.0
    )
    height, width = bottom - top, right - left
    if not is_half:
        height, width = max(height, 1.0), max(width, 1.0)
    ratio = attrs.get("sampling_ratio", 0)
    ys, rows = _grid(top, height, bins[0], ratio)
    xs, columns = _grid(left, width, bins[1], ratio)
    size = image.shape[1:]
    inside = ((ys >= -1) & (ys <= size[0]))[:, None] & ((xs >= -1) & (xs <= size[1]))
    parts = [
        image[:, y[:, None], x] * (wy[:, None] * wx * inside)
        for y, wy in _corners(ys, size[0])
        for x, wx in _corners(xs, size[1])
    ]
    is_mean = attrs.get("mode", "avg") == "avg"
    samples = np.sum(parts, 0) if is_mean else np.max(parts, 0)
    if not rows or not columns:
        return np.zeros((image.shape[0], *bins))
    cells = samples.reshape(-1, bins[0], rows, bins[1], columns)
    return np.asarray(cells.mean((2, 4)) if is_mean else cells.max((2, 4)))


def _roi_align(attrs: OnnxAttrs, x: Array, rois: Array, batches: Array) -> Array:
    if np.any((batches < 0) | (batches >= len(x))):
        raise _refused("a region lies in an image that is not in the batch")
    bins = attrs.get("output_height", 1), attrs.get("output_width", 1)
    made = [_aligned(attrs, x[int(n)], roi) for n, roi in zip(batches, rois, strict=True)]
    return np.array(made).reshape(len(rois), x.shape[1], *bins)


onnx_kind("RoiAlign", _roi_align, inputs=(3, 3))


def _bins(start: int, end: int, count: int, size: int) -> list[slice]:
    """The pixels of each bin of a region along an axis."""
    step = max(end - start + 1, 1) / count
    first = [int(np.clip(np.floor(i * step) + start, 0, size)) for i in range(count)]
    last = [int(np.clip(np.ceil((i + 1) * step) + start, 0, size)) for i in range(count)]
    return [slice(*pair) for pair in zip(first, last, strict=True)]


def _max_roi_pool(attrs: OnnxAttrs, x: Array, rois: Array) -> Array:
    """The greatest pixel of each bin; 0 where a bin has none."""
    height, width = attrs.get("pooled_shape")
    made = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for index, roi in enumerate(rois):
        if not 0 <= roi[0] < len(x):
            raise _refused("a region lies in an image that is not in the batch")
        if not (np.abs(roi) < _FAR).all():
            raise _refused("a region is not near the image")
        image = x[int(roi[0])]
        left, top, right, bottom = (
            int(np.floor(v * attrs.get("spatial_scale", 1.0) + 0.5)) for v in roi[1:]
        )
        for i, rows in enumerate(_bins(top, bottom, height, image.shape[1])):
            for j, columns in enumerate(_bins(left, right, width, image.shape[2])):
                cell = image[:, rows, columns]
                if cell.size:
                    made[index, :, i, j] = cell.max((1, 2))
    return made


onnx_kind("MaxRoiPool", _max_roi_pool, inputs=(2, 2))


def _sampled(image: Array, y: Array, x: Array) -> Array:
    """An image [channels, height, width] between pixels; zero outside of it."""
    height, width = image.shape[1:]
    top, left = np.floor(y), np.floor(x)
    total = np.zeros((len(image), *y.shape))
    for row, share in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, part in ((left, 1 - (x - left)), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            places = (
                np.clip(row, 0, height - 1).astype(np.int64),
                np.clip(column, 0, width - 1).astype(np.int64),
            )
            total += image[:, places[0], places[1]] * (share * part * inside)
    return total


def _deform_conv(
    attrs: OnnxAttrs, x: Array, weights: Array, offset: Array, bias: Any = None, mask: Any = None
) -> Array:
    """A convolution whose every tap is displaced by an offset of its own."""
    if x.ndim != 4:
        raise GraphError("DeformConv takes images of two dimensions")
    kernel, sizes = weights.shape[2:], offset.shape[2:]
    groups, parts = attrs.get("offset_group", 1), attrs.get("group", 1)
    strides, dilations = attrs.get("strides", (1, 1)), attrs.get("dilations", (1, 1))
    pads = attrs.get("pads", (0, 0, 0, 0))
    moved = offset.reshape(len(x), groups, *kernel, 2, *sizes)
    shares = np.ones((len(x), groups, *kernel, *sizes), x.dtype) if mask is None else mask
    shares = shares.reshape(len(x), groups, *kernel, *sizes)
    base = [
        np.arange(kernel[a]).reshape(-1, 1) * dilations[a]
        + np.arange(sizes[a]) * strides[a]
        - pads[a]
        for a in (0, 1)
    ]
    ys = moved[:, :, :, :, 0] + base[0][:, None, :, None]
    xs = moved[:, :, :, :, 1] + base[1][:, None, :]
    channels = x.reshape(len(x), groups, -1, *x.shape[2:])
    taps = [
        [_sampled(channels[n, g], ys[n, g], xs[n, g]) * shares[n, g] for g in range(groups)]
        for n in range(len(x))
    ]
    columns = np.array(taps).reshape(len(x), parts, -1, *kernel, *sizes)
    filters = weights.reshape(parts, -1, weights.shape[1], *kernel)
    made = np.einsum("npcijhw,pocij->npohw", columns, filters)
    made = made.reshape(len(x), weights.shape[0], *sizes)
    return made if bias is None else made + bias.reshape(-1, 1, 1)


onnx_kind("DeformConv", _deform_conv, inputs=(3, 5))


def _affine_grid(attrs: OnnxAttrs, theta: Array, size: Array) -> Array:
    """Where an affine map takes each pixel, in units of half the image."""
    axes = []
    for count in map(int, size[2:]):
        if attrs.get("align_corners", 0):
            axes.append(np.linspace(-1, 1, count) if count > 1 else np.array([-1.0]))
        else:
            axes.append((np.arange(count) * 2 + 1) / count - 1)
    places = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*reversed(places), np.ones_like(places[0])], -1)
    return np.einsum("nij,...j->n...i", theta, points)


onnx_kind("AffineGrid", _affine_grid, inputs=(2, 2))
