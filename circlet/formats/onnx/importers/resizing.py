"""Resizing: by the operators of Circle that sample the same places, else by gathers along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.onnx.resize import samples, targets
from circlet.ops.resize import ResizeAttrs

_MOST_TAPS = 16
_PIXELS = (DType.FLOAT32, DType.INT8, DType.UINT8)


@importer("Upsample")
def _upsample_of_attributes(node: Node) -> Tensor:
    scales = node.attributes.get("scales")
    return _resized(node, scales, None, "asymmetric", "floor")


@importer("Upsample", since=9)
def _upsample(node: Node) -> Tensor:
    return _resized(node, node.known(1), None, "asymmetric", "floor")


@importer("Resize")
def _resize_10(node: Node) -> Tensor:
    return _resized(node, node.known(1), None, "asymmetric", "floor")


@importer("Resize", since=11)
def _resize(node: Node) -> Tensor:
    keeps_aspect = node.text("keep_aspect_ratio_policy", "stretch") != "stretch"
    where = node.text("coordinate_transformation_mode", "half_pixel")
    scales, sizes = node.known(2), node.known_ints(3)
    scales = None if scales is None or not scales.size else scales
    nearest = node.text("nearest_mode", "round_prefer_floor")
    if node.whole("antialias") or node.ints("axes") or keeps_aspect:
        return _sampled(node, scales, sizes)
    return _resized(node, scales, sizes, where, nearest)


def _resized(
    node: Node,
    scales: Sequence[float] | np.ndarray | None,
    sizes: Sequence[int] | None,
    where: str,
    nearest: str,
) -> Tensor:
    try:
        return _of_circle(node, scales, sizes, where, nearest)
    except NotLoweredError:
        node.ops.clear()
    return _sampled(node, scales, sizes)


def _sampled(
    node: Node, scales: Sequence[float] | np.ndarray | None, sizes: Sequence[int] | None
) -> Tensor:
    """Each axis by gathers of its sources, added by their shares; images with channels last."""
    x = node[0]
    rank = node.rank(x)
    if None in x.shape or (scales is None and sizes is None):
        raise NotLoweredError("sizes are open, or computed")
    plain = tuple((name, value) for name, value in node.attributes.items() if name != "scales")
    attrs = OnnxAttrs(plain, 10 if node.kind == "Upsample" else node.opset)
    axes = node.axes(node.ints("axes") or range(rank), rank)
    wanted = targets(attrs, [size or 0 for size in x.shape], axes, scales, sizes)
    changed = {a: to for a, to in zip(axes, wanted, strict=True) if to != (x.shape[a], 1.0)}
    is_image = rank > 2 and all(axis > 1 for axis in changed)
    made = node.channels_last(x) if is_image else x
    for axis, (count, scale) in changed.items():
        made = _along(node, made, axis - 1 if is_image else axis, attrs, count, scale)
    return node.channels_first(made) if is_image else made


def _along(node: Node, x: Tensor, axis: int, attrs: OnnxAttrs, count: int, scale: float) -> Tensor:
    """One axis resized."""
    found = samples(attrs, x.static_shape[axis], count, scale)
    if found is None or found[0].shape[1] > _MOST_TAPS or not count:
        raise NotLoweredError("what is read is a region, or many elements for each one")
    at, shares = found
    if shares is not None and x.dtype is not DType.FLOAT32:
        raise NotLoweredError("only FLOAT32 is interpolated so")
    total: Tensor | None = None
    for tap in range(at.shape[1]):
        part = node.op("GATHER", [x, node.const(at[:, tap], np.int32)], GatherAttrs(axis), x.dtype)
        if shares is not None:
            column = shares[:, tap].reshape(-1, *[1] * (node.rank(x) - axis - 1))
            part = node.op("MUL", [part, node.const(column, np.float32)])
        total = part if total is None else node.op("ADD", [total, part])
    assert total is not None
    return total


def _of_circle(
    node: Node,
    scales: Sequence[float] | np.ndarray | None,
    sizes: Sequence[int] | None,
    where: str,
    nearest: str,
) -> Tensor:
    """An image resized by whole factors or bilinearly, where Circle samples the same places."""
    x, mode = node[0], node.text("mode", "nearest")
    if node.rank(x) != 4 or None in x.shape[2:] or x.dtype not in _PIXELS:
        raise NotLoweredError("only images of known sizes, FLOAT32 or of bytes, are resized so")
    height, width = (size or 0 for size in x.shape[2:])
    if sizes is not None:
        if tuple(sizes[:2]) not in (x.shape[:2], (1, x.shape[1])):
            raise NotLoweredError("batch or channels are resized")
        factors = [sizes[2] / height, sizes[3] / width]
        target = [int(sizes[2]), int(sizes[3])]
    elif scales is not None and len(scales) == 4 and scales[0] == scales[1] == 1:
        factors = [float(factor) for factor in scales[2:]]
        target = [int(height * factors[0]), int(width * factors[1])]
    else:
        raise NotLoweredError("batch or channels are resized, or the sizes are computed")
    exact = all(t == f * s for t, f, s in zip(target, factors, (height, width), strict=True))
    record, attrs = _sampling(mode, where, nearest, factors, exact)
    widens = mode == "linear" and x.dtype is not DType.FLOAT32
    if widens and (where == "align_corners" or not all(map(_is_exact, factors))):
        raise NotLoweredError("FLOAT32 shares are rounded, and integers are cut off behind them")
    image, dtype = node.channels_last(x), DType.FLOAT32 if widens else x.dtype
    image = node.op("CAST", [image], dtype=dtype) if widens else image
    made = node.op(record, [image, node.const(target, np.int32)], attrs, dtype)
    return node.channels_first(node.op("CAST", [made], dtype=x.dtype) if widens else made)


def _is_exact(factor: float) -> bool:
    """Whether FLOAT32 sums of bytes times shares of both axes are exact.

    Growing by 2**n gives shares of n + 1 bits. With 8 bits of a byte that is 20 bits for 32, of the
    24 that a FLOAT32 holds.
    """
    return factor in (1, 2, 4, 8, 16, 32)


def _sampling(
    mode: str, where: str, nearest: str, factors: Sequence[float], exact: bool
) -> tuple[str, ResizeAttrs]:
    if not exact:
        raise NotLoweredError("the scale is not that of the sizes")
    if mode == "linear" and where in ("asymmetric", "half_pixel", "align_corners"):
        return "RESIZE_BILINEAR", ResizeAttrs(where)
    if mode == "linear" and where == "pytorch_half_pixel" and min(factors) >= 1:
        return "RESIZE_BILINEAR", ResizeAttrs("half_pixel")
    grows = all(factor >= 1 and factor == int(factor) for factor in factors)
    doubled = nearest == "round_prefer_floor" and set(factors) <= {1, 2}  # halves go down
    if mode == "nearest" and where == "asymmetric" and (nearest == "floor" or doubled):
        return "RESIZE_NEAREST_NEIGHBOR", ResizeAttrs("asymmetric")
    if mode == "nearest" and where == "half_pixel" and grows and nearest.startswith("round_prefer"):
        return "RESIZE_NEAREST_NEIGHBOR", ResizeAttrs("asymmetric")
    raise NotLoweredError(f"{mode} resizing at {where}, {nearest}, has no such form")
