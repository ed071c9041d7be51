"""Resize with every mode of the standard, any number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape, Tensor
from circlet.ops.onnx.record import OnnxAttrs, axis_of, onnx_kind
from circlet.ops.onnx.sizes import inferred

Array = np.ndarray


def _position(
    attrs: OnnxAttrs, i: Array, scale: float, size: int, result: float, roi: Any
) -> Array:
    """Where in the source each output index lies."""
    mode = attrs.get("coordinate_transformation_mode", "half_pixel")
    if mode == "asymmetric":
        return np.asarray(i / scale)
    if mode == "align_corners":
        return np.asarray(i * (size - 1) / (result - 1) if result > 1 else i * 0.0)
    if mode == "tf_crop_and_resize":
        first, last = roi
        if result > 1:
            return np.asarray(first * (size - 1) + i * (last - first) * (size - 1) / (result - 1))
        return np.asarray(0.5 * (first + last) * (size - 1) + i * 0.0)
    if mode == "pytorch_half_pixel" and result <= 1:
        return np.asarray(i * 0.0 - 0.5 + 0.5)
    centred = (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        length = scale * size
        centre, adjusted = size / 2, int(length) / length
        return np.asarray(centre * (1 - adjusted) + centred)
    return np.asarray(centred)


def _weights(attrs: OnnxAttrs, offset: Array, scale: float) -> tuple[Array, Array]:
    """Which sources around a place count, from its floor on, and how much each."""
    mode = attrs.get("mode", "nearest")
    shrink = min(scale, 1.0) if attrs.get("antialias", 0) else 1.0
    if mode == "linear":
        reach = int(np.ceil(1 / shrink))
        places = np.arange(1 - reach, reach + 1)
        made = np.maximum(0, 1 - np.abs(places - offset[:, None]) * shrink)
        return places, made
    a = attrs.get("cubic_coeff_a", -0.75)
    reach = int(np.ceil(2 / shrink))
    places = np.arange(1 - reach, reach + 1)
    x = np.abs(places - offset[:, None]) * shrink
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return places, np.where(x <= 1, near, np.where(x < 2, far, 0))


def _nearest(attrs: OnnxAttrs, position: Array) -> Array:
    how = attrs.get("nearest_mode", "round_prefer_floor")
    if attrs.opset < 11:
        how = "floor"
    if how == "floor":
        return np.floor(position)
    if how == "ceil":
        return np.ceil(position)
    if how == "round_prefer_ceil":
        return np.floor(position + 0.5)
    return np.ceil(position - 0.5)


def _positions(attrs: OnnxAttrs, size: int, count: int, scale: float, roi: Any) -> Array:
    result = scale * size if attrs.get("axes") is None and count != scale * size else float(count)
    return _position(attrs, np.arange(count, dtype=np.float64), scale, size, result, roi)


def _along(attrs: OnnxAttrs, x: Array, axis: int, count: int, scale: float, roi: Any) -> Array:
    size = x.shape[axis]
    position = _positions(attrs, size, count, scale, roi)
    if attrs.get("mode", "nearest") == "nearest":
        at = np.clip(_nearest(attrs, position).astype(np.int64), 0, size - 1)
        made = np.take(x, at, axis)
    else:
        made = _interpolated(attrs, x, axis, position, scale)
    if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        shape = [1] * x.ndim
        shape[axis] = -1
        outside = ((position < 0) | (position > size - 1)).reshape(shape)
        made = np.where(outside, attrs.get("extrapolation_value", 0.0), made)
    return made


def _taps(attrs: OnnxAttrs, size: int, position: Array, scale: float) -> tuple[Array, Array]:
    """The sources of each output index, [outputs, taps], and what share each has."""
    floor = np.floor(position)
    places, weights = _weights(attrs, position - floor, scale)
    at = floor.astype(np.int64)[:, None] + places
    if attrs.get("exclude_outside", 0):
        weights = np.where((at < 0) | (at >= size), 0, weights)
    return np.clip(at, 0, size - 1), weights / weights.sum(1, keepdims=True)


def samples(
    attrs: OnnxAttrs, size: int, count: int, scale: float
) -> tuple[Array, Array | None] | None:
    """The sources of each output index along an axis, [outputs, taps], and their shares.

    There are no shares where each index has one source; None where a region says what is read.
    """
    said = _meant(attrs)
    if said.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    position = _positions(said, size, count, scale, None)
    if said.get("mode", "nearest") == "nearest":
        return np.clip(_nearest(said, position).astype(np.int64), 0, size - 1)[:, None], None
    return _taps(said, size, position, scale)


def _interpolated(attrs: OnnxAttrs, x: Array, axis: int, position: Array, scale: float) -> Array:
    size = x.shape[axis]
    at, weights = _taps(attrs, size, position, scale)
    matrix = np.zeros((len(position), size))
    np.add.at(matrix, (np.arange(len(position))[:, None], at), weights)
    return np.moveaxis(np.tensordot(x.astype(np.float64), matrix, ([axis], [1])), -1, axis)


def _meant(attrs: OnnxAttrs) -> OnnxAttrs:
    """The attributes, with what operator sets before 11 take for granted."""
    if attrs.opset >= 11:
        return attrs
    kept = ((k, v) for k, v in attrs.values if k != "coordinate_transformation_mode")
    return OnnxAttrs((*kept, ("coordinate_transformation_mode", "asymmetric")), 10)


def targets(
    attrs: OnnxAttrs, shape: Sequence[int], axes: Sequence[int], scales: Any, sizes: Any
) -> list[tuple[int, float]]:
    """Output size and scale of each axis that is resized."""
    have = [shape[axis] for axis in axes]
    if sizes is None:
        return [(int(np.floor(n * s)), float(s)) for n, s in zip(have, scales, strict=True)]
    wanted = [int(n) for n in sizes]
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    ratios = [w / n for w, n in zip(wanted, have, strict=True)]
    if policy == "stretch":
        return list(zip(wanted, ratios, strict=True))
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(int(np.floor(scale * n + 0.5)), scale) for n in have]


def _resize(
    attrs: OnnxAttrs, x: Array, roi: Any = None, scales: Any = None, sizes: Any = None
) -> Array:
    if attrs.opset < 11:
        roi, scales = None, roi
    scales = None if scales is None or not scales.size else scales
    sizes = None if sizes is None or not sizes.size else sizes
    if scales is None and sizes is None:
        raise GraphError("Resize has neither scales nor sizes")
    axes = [a % x.ndim for a in attrs.get("axes") or range(x.ndim)]
    said, made = _meant(attrs), x
    for i, (count, scale) in enumerate(targets(said, x.shape, axes, scales, sizes)):
        corners = None if roi is None or not roi.size else (roi[i], roi[i + len(axes)])
        if count == x.shape[axes[i]] and scale == 1 and corners is None:
            continue
        made = _along(said, made, axes[i], count, scale, corners)
    return np.rint(made) if x.dtype.kind in "iu" and said.get("mode") == "cubic" else made


def _upsample(attrs: OnnxAttrs, x: Array, scales: Any = None) -> Array:
    given = np.array(attrs.get("scales"), np.float32) if scales is None else scales
    return _resize(OnnxAttrs(attrs.values, 10), x, given)


def _given(tensor: Tensor | None) -> Array | None:
    """The elements of an operand that has any; None where it is omitted or computed."""
    return None if tensor is None or tensor.data is None or not tensor.elements else tensor.data


def _sizes(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """Sizes by the operands where these are constant."""
    first = 1 if attrs.opset < 11 else 2
    scales, sizes = _given(op.input(first)), _given(op.input(first + 1))
    listed = attrs.get("scales")
    scales = np.array(listed, np.float32) if listed is not None else scales
    if scales is None and sizes is None:
        return [(None,) * len(x)]
    axes = [axis_of(axis, len(x)) for axis in attrs.get("axes") or range(len(x))]
    made: list[int | None] = list(x)
    if sizes is not None and attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch":
        for axis, size in zip(axes, sizes, strict=True):
            made[axis] = int(size)
    elif sizes is None and scales is not None:
        for axis, scale in zip(axes, scales, strict=True):
            size = x[axis]
            made[axis] = None if size is None else int(np.floor(size * scale))
    elif any(x[axis] is None for axis in axes):
        return [(None,) * len(x)]
    else:
        known = [size or 0 for size in x]
        for axis, (count, _) in zip(axes, targets(attrs, known, axes, scales, sizes), strict=True):
            made[axis] = count
    return [tuple(made)]


onnx_kind("Resize", _resize, inputs=(1, 4), infer=inferred(_sizes))
onnx_kind("Upsample", _upsample, inputs=(1, 2), infer=inferred(_sizes))
