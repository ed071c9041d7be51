"""Records of the domain com.microsoft: crops of images, and inverses of matrices."""

from __future__ import annotations

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.onnx.record import OnnxAttrs, onnx_kind, same
from circlet.ops.opdef import Cost, TensorType, moves_bytes

Array = np.ndarray


def _inverse(attrs: OnnxAttrs, x: Array) -> Array:
    try:
        return np.asarray(np.linalg.inv(x.astype(np.promote_types(x.dtype, np.float32))))
    except np.linalg.LinAlgError as error:
        raise GraphError("a matrix has no inverse", why=str(error)) from None


def _inverse_work(op: Op) -> Cost:
    x = op.inputs[0]
    assert x is not None
    rows = x.static_shape[-1] if x.shape else 1
    return Cost(macs=x.elements * rows, bytes=moves_bytes(op).bytes)


onnx_kind("com.microsoft.Inverse", _inverse, infer=same, cost=_inverse_work)


def _places(start: Array, end: Array, count: int, size: int) -> Array:
    """Where so many samples lie from a start to an end, both in shares of an axis, in float32."""
    last = np.float32(size - 1)
    if count == 1:
        return ((start + end) * np.float32(0.5) * last)[:, None]
    step = (end - start) * last / np.float32(count - 1)
    made = start[:, None] * last + np.arange(count, dtype=np.float32) * step[:, None]
    made[:, -1] = end * last
    return made


def _cropped(x: Array, rows: Array, columns: Array, mode: str) -> Array:
    """[channels, rows, columns] of one image at places inside of it."""
    if mode == "nearest":
        near = [np.floor(at + 0.5).astype(np.int64) for at in (rows, columns)]
        return x[:, near[0][:, None], near[1]]
    low = [np.floor(at).astype(np.int64) for at in (rows, columns)]
    high = [np.ceil(at).astype(np.int64) for at in (rows, columns)]
    right, down = columns - low[1], (rows - low[0])[:, None]
    lines = []
    for line in (low[0], high[0]):
        left = x[:, line[:, None], low[1]]
        lines.append(left + (x[:, line[:, None], high[1]] - left) * right)
    return np.asarray(lines[0] + (lines[1] - lines[0]) * down)


def _crop_and_resize(attrs: OnnxAttrs, x: Array, boxes: Array, images: Array, size: Array) -> Array:
    """Boxes of images, each sampled at as many rows and columns, corners included."""
    height, width = (int(n) for n in size.reshape(-1)[:2])
    outside = np.float32(attrs.get("extrapolation_value", 0.0))
    made = np.full((len(boxes), x.shape[1], height, width), outside, x.dtype)
    if height < 1 or width < 1 or (images < 0).any() or (images >= len(x)).any():
        raise GraphError("a crop has no size, or names an image that does not exist")
    rows = _places(boxes[:, 0], boxes[:, 2], height, x.shape[2])
    columns = _places(boxes[:, 1], boxes[:, 3], width, x.shape[3])
    for crop, image, row, column in zip(made, images, rows, columns, strict=True):
        inside = [(at >= 0) & (at <= n - 1) for at, n in ((row, x.shape[2]), (column, x.shape[3]))]
        kept = np.ix_(np.arange(x.shape[1]), *(np.flatnonzero(known) for known in inside))
        mode = attrs.get("mode", "bilinear")
        crop[kept] = _cropped(x[image], row[inside[0]], column[inside[1]], mode)
    return made


def _crops(op: Op) -> list[TensorType]:
    x, boxes, _, size = op.inputs
    assert x is not None and boxes is not None and size is not None
    known = (None, None) if size.data is None else tuple(int(n) for n in size.data.reshape(-1)[:2])
    if len(x.shape) != 4 or len(boxes.shape) != 2:
        raise GraphError("crops are taken of images, by boxes of four numbers", where=op.name)
    return [TensorType(x.dtype, (boxes.shape[0], x.shape[1], *known))]


onnx_kind("com.microsoft.CropAndResize", _crop_and_resize, inputs=(4, 4), infer=_crops)
