"""Kinds that move elements: slices, gathers, pads, and what finds places."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ops.onnx.record import MANY, OnnxAttrs, axis_of, kinds, onnx_kind, same
from circlet.ops.onnx.windows import after_channels

Array = np.ndarray
_BOXES_AT_ONCE = 64  # that NonMaxSuppression compares with all behind them


def _ints(array: Any) -> list[int]:
    return [int(value) for value in np.asarray(array).reshape(-1)]


def _reshape(attrs: OnnxAttrs, x: Array, target: Array) -> Array:
    sizes = _ints(target)
    if not attrs.get("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(attrs: OnnxAttrs, x: Array) -> Array:
    axis = attrs.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis])), -1)


def _axes(attrs: OnnxAttrs, axes: Any) -> list[int] | None:
    found = attrs.get("axes") if axes is None else _ints(axes)
    return None if found is None else list(found)


def _squeeze(attrs: OnnxAttrs, x: Array, axes: Any = None) -> Array:
    found = _axes(attrs, axes)
    return np.squeeze(x, None if found is None else tuple(found))


def _unsqueeze(attrs: OnnxAttrs, x: Array, axes: Any = None) -> Array:
    return np.expand_dims(x, tuple(_axes(attrs, axes) or ()))


def _split(attrs: OnnxAttrs, x: Array, sizes: Any = None) -> tuple[Array, ...]:
    axis = attrs.get("axis", 0)
    given = attrs.get("split") if sizes is None else _ints(sizes)
    if given is None:
        count = attrs.get("num_outputs")
        each = -(-x.shape[axis] // count)
        given = [each] * (count - 1)
        given.append(x.shape[axis] - sum(given))
    return tuple(np.split(x, np.cumsum(given)[:-1], axis))


def _slice(
    attrs: OnnxAttrs,
    x: Array,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
    steps: Any = None,
) -> Array:
    begin = _ints(attrs.get("starts") if starts is None else starts)
    end = _ints(attrs.get("ends") if ends is None else ends)
    places = _axes(attrs, axes) or list(range(len(begin)))
    strides = [1] * len(begin) if steps is None else _ints(steps)
    taken = [slice(None)] * x.ndim
    for first, last, axis, step in zip(begin, end, places, strides, strict=True):
        stop = None if step < 0 and last < -x.shape[axis] else last
        taken[axis] = slice(first, stop, step)
    return x[tuple(taken)]


def pad_amounts(attrs: OnnxAttrs, rank: int, pads: Any = None, axes: Any = None) -> Array:
    """What a Pad adds, [rank, 2]: elements before and behind each axis; negative ones cut."""
    amounts = _ints(attrs.get("pads") if pads is None else pads)
    places = list(range(rank)) if axes is None else [axis_of(a, rank) for a in _ints(axes)]
    table = np.zeros((rank, 2), np.int64)
    for i, axis in enumerate(places):
        table[axis] = amounts[i], amounts[i + len(places)]
    return table


def _pad(attrs: OnnxAttrs, x: Array, pads: Any = None, fill: Any = None, axes: Any = None) -> Array:
    table = pad_amounts(attrs, x.ndim, pads, axes)
    cut = tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, table, strict=True))
    kept, table = x[cut], np.maximum(table, 0)
    mode = attrs.get("mode", "constant")
    if mode == "constant":
        value = attrs.get("value", 0) if fill is None else np.asarray(fill).reshape(-1)[0]
        return np.pad(kept, table, constant_values=value)
    return np.pad(kept, table, mode=mode)


def _depth_to_space(attrs: OnnxAttrs, x: Array) -> Array:
    batch, depth, height, width = x.shape
    b = attrs.get("blocksize")
    filters = depth // (b * b)
    if attrs.get("mode", "DCR") == "DCR":
        moved = x.reshape(batch, b, b, filters, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(batch, filters, b, b, height, width).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(batch, filters, height * b, width * b)


def _space_to_depth(attrs: OnnxAttrs, x: Array) -> Array:
    batch, depth, height, width = x.shape
    b = attrs.get("blocksize")
    order = (0, 1, 3, 5, 2, 4) if attrs.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    split = x.reshape(batch, depth, height // b, b, width // b, b).transpose(order)
    return split.reshape(batch, depth * b * b, height // b, width // b)


def _concat(attrs: OnnxAttrs, *arrays: Any) -> Array:
    return np.concatenate([a for a in arrays if a is not None], attrs.get("axis", 0))


def _expand(attrs: OnnxAttrs, x: Array, sizes: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(_ints(sizes)))).copy()


def _filled(attrs: OnnxAttrs, sizes: Array) -> Array:
    value = attrs.array("value")
    if min(_ints(sizes), default=0) < 0:
        raise GraphError("a size is negative", why=str(list(_ints(sizes))))
    return np.full(_ints(sizes), np.float32(0) if value is None else value.reshape(-1)[0])


def _range(attrs: OnnxAttrs, start: Array, end: Array, step: Array) -> Array:
    first, last, by = (np.asarray(a).reshape(-1)[0] for a in (start, end, step))
    count = max(0, int(np.ceil((last - first) / by)))
    return np.asarray(first + np.arange(count) * by).astype(start.dtype)


def _trilu(attrs: OnnxAttrs, x: Array, by: Any = None) -> Array:
    place = 0 if by is None else _ints(by)[0]
    return np.triu(x, place) if attrs.get("upper", 1) else np.tril(x, place)


def _non_zero(attrs: OnnxAttrs, x: Array) -> Array:
    """Places, one column each; those of a single number have no rows."""
    if x.ndim == 0:
        return np.empty((0, np.count_nonzero(x)), np.int64)
    return np.array(np.nonzero(x), np.int64)


kinds(
    {
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
        "DepthToSpace": _depth_to_space,
        "SpaceToDepth": _space_to_depth,
        "Expand": _expand,
        "ConstantOfShape": _filled,
        "Split": _split,
        "Tile": lambda attrs, x, repeats: np.tile(x, _ints(repeats)),
        "Shape": lambda a, x: np.array(x.shape[a.get("start", 0) : a.get("end")], np.int64),
        "Size": lambda attrs, x: np.int64(x.size),
        "Transpose": lambda attrs, x: x.transpose(attrs.get("perm")).copy(),
        "NonZero": _non_zero,
    },
    inputs=(1, 2),
)
onnx_kind("Slice", _slice, inputs=(1, 5))
onnx_kind("Pad", _pad, inputs=(1, 4))
onnx_kind("Concat", _concat, inputs=(1, MANY))
onnx_kind("Range", _range, inputs=(3, 3))
onnx_kind("Trilu", _trilu, inputs=(1, 2), infer=same)


def _eye_like(attrs: OnnxAttrs, x: Array) -> Array:
    return np.eye(x.shape[0], x.shape[1], k=attrs.get("k", 0))


onnx_kind("EyeLike", _eye_like)


def _gather_nd(attrs: OnnxAttrs, x: Array, indices: Array) -> Array:
    lead = attrs.get("batch_dims", 0)
    if not lead:
        return x[tuple(np.moveaxis(indices, -1, 0))]
    flat = x.reshape(-1, *x.shape[lead:])
    places = indices.reshape(-1, *indices.shape[lead:])
    parts = [a[tuple(np.moveaxis(i, -1, 0))] for a, i in zip(flat, places, strict=True)]
    return np.stack(parts).reshape(*x.shape[:lead], *parts[0].shape)


def _gather_elements(attrs: OnnxAttrs, x: Array, indices: Array) -> Array:
    axis = axis_of(attrs.get("axis", 0), x.ndim)
    places = np.where(indices < 0, indices + x.shape[axis], indices)
    grid = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = places
    return x[tuple(grid)]


kinds({"GatherND": _gather_nd, "GatherElements": _gather_elements}, inputs=(2, 2))
onnx_kind(
    "Gather",
    lambda attrs, x, i: np.take(x, i.astype(np.int64), attrs.get("axis", 0)),
    inputs=(2, 2),
)


def _compress(attrs: OnnxAttrs, x: Array, chosen: Array) -> Array:
    return np.compress(chosen, x, attrs.get("axis"))


onnx_kind("Compress", _compress, inputs=(2, 2))


def _one_hot(attrs: OnnxAttrs, indices: Array, depth: Array, values: Array) -> Array:
    count = int(np.asarray(depth).reshape(-1)[0])
    axis = attrs.get("axis", -1)
    places = np.where(indices < 0, indices + count, indices)
    hot = places[..., None] == np.arange(count)
    made = np.where(hot, values[1], values[0])
    return np.moveaxis(made, -1, axis)


onnx_kind("OneHot", _one_hot, inputs=(3, 3))


def _top_k(attrs: OnnxAttrs, x: Array, count: Any = None) -> tuple[Array, Array]:
    axis = attrs.get("axis", -1)
    k = attrs.get("k") if count is None else _ints(count)[0]
    if attrs.get("largest", 1):
        down = -x.astype(np.float64) if x.dtype.kind == "f" else ~x
        order = np.argsort(down, axis, kind="stable")
    else:
        order = np.argsort(x, axis, kind="stable")
    places = np.take(order, range(k), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


onnx_kind("TopK", _top_k, inputs=(1, 2))


def distinct(x: Array, axis: int | None, is_rising: bool) -> tuple[Array, ...]:
    """Distinct elements, or slices along an axis, in rising order or in that of their first places.

    With them come where each stands first, for each element the number of its own, and how often
    each comes. All that is no number is one element, the last.
    """
    made, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not is_rising:
        order = np.argsort(first, kind="stable")
        rank = np.argsort(order, kind="stable")
        made = np.take(made, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return made, first, inverse, counts


def _unique(attrs: OnnxAttrs, x: Array) -> tuple[Array, ...]:
    return distinct(x, attrs.get("axis"), bool(attrs.get("sorted", 1)))


onnx_kind("Unique", _unique)


def _reverse_sequence(attrs: OnnxAttrs, x: Array, lengths: Array) -> Array:
    time, batch = attrs.get("time_axis", 0), attrs.get("batch_axis", 1)
    made = np.moveaxis(x, (batch, time), (0, 1)).copy()
    for row, length in zip(made, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    return np.moveaxis(made, (0, 1), (batch, time))


onnx_kind("ReverseSequence", _reverse_sequence, inputs=(2, 2), infer=same)


def _center_crop_pad(attrs: OnnxAttrs, x: Array, target: Array) -> Array:
    axes = attrs.get("axes") or range(x.ndim)
    made = x
    for axis, size in zip(axes, _ints(target), strict=True):
        place = axis_of(axis, x.ndim)
        have = made.shape[place]
        if size < have:
            start = (have - size) // 2
            made = np.take(made, range(start, start + size), place)
        else:
            table = [(0, 0)] * x.ndim
            table[place] = ((size - have) // 2, size - have - (size - have) // 2)
            made = np.pad(made, table)
    return made


onnx_kind("CenterCropPad", _center_crop_pad, inputs=(2, 2))


def _col_to_im(attrs: OnnxAttrs, x: Array, sizes: Array, block: Array) -> Array:
    """Adds columns of patches to the image that they were taken of."""
    image, taps = _ints(sizes), _ints(block)
    rank = len(taps)
    dilations = attrs.get("dilations") or (1,) * rank
    strides = attrs.get("strides") or (1,) * rank
    pads = attrs.get("pads") or (0,) * (2 * rank)
    padded = [n + pads[i] + pads[i + rank] for i, n in enumerate(image)]
    counts = [(padded[i] - dilations[i] * (taps[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    channels = x.shape[1] // int(np.prod(taps))
    columns = x.reshape(x.shape[0], channels, *taps, *counts)
    made = np.zeros((x.shape[0], channels, *padded), x.dtype)
    for place in product(*map(range, taps)):
        at = tuple(
            slice(p * d, p * d + (c - 1) * s + 1, s)
            for p, d, c, s in zip(place, dilations, counts, strides, strict=True)
        )
        made[after_channels(at)] += columns[after_channels(place)]
    inner = tuple(slice(pads[i], pads[i] + n) for i, n in enumerate(image))
    return made[:, :, *inner]


onnx_kind("Col2Im", _col_to_im, inputs=(3, 3))


def _suppressed(
    attrs: OnnxAttrs,
    boxes: Array,
    scores: Array,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
) -> Array:
    """The boxes that are kept, best first, of each class of each batch."""
    count = 0 if most is None else _ints(most)[0]
    limit = np.float32(0 if overlap is None else np.asarray(overlap).reshape(-1)[0])
    found = []
    for batch, group in product(range(scores.shape[0]), range(scores.shape[1])):
        corners = _corners(boxes[batch], attrs.get("center_point_box", 0))
        ranked = np.argsort(-scores[batch, group], kind="stable")
        if least is not None:
            bar = np.asarray(least).reshape(-1)[0]
            ranked = ranked[scores[batch, group, ranked] > bar]
        kept = ranked[_kept(corners[ranked], count, limit)]
        found += [(batch, group, place) for place in kept]
    return np.array(found, np.int64).reshape(-1, 3)


def _kept(corners: Array, count: int, limit: Any) -> list[int]:
    """Places of at most so many boxes, in order, that overlap none before them by more."""
    kept: list[int] = []
    alive = np.ones(len(corners), bool)
    for start in range(0, len(corners), _BOXES_AT_ONCE):
        if len(kept) >= count:
            break
        block = start + np.flatnonzero(alive[start : start + _BOXES_AT_ONCE])
        apart = ~(_overlaps(corners[block], corners[start:]) > limit)
        for place, others in zip(block, apart, strict=True):
            if alive[place] and len(kept) < count:
                kept.append(int(place))
                alive[start:] &= others
    return kept


def _corners(boxes: Array, centred: int) -> Array:
    if centred:
        half = boxes[:, 2:] / 2
        return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlaps(left: Array, right: Array) -> Array:
    """What each box of one list has in common with each of another, of what both cover."""
    low = np.maximum(left[:, None, :2], right[None, :, :2])
    high = np.minimum(left[:, None, 2:], right[None, :, 2:])
    common = np.maximum(high - low, 0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (left, right)]
    union = areas[0][:, None] + areas[1] - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=common > 0))


onnx_kind("NonMaxSuppression", _suppressed, inputs=(2, 5))
