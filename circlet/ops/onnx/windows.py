"""Convolutions and poolings over any number of spatial axes, channels first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.onnx.record import OnnxAttrs, attributes, kinds, onnx_kind, stated
from circlet.ops.opdef import Cost, TensorType
from circlet.ops.operands import moves_bytes, operand
from circlet.words import counted

Array = np.ndarray


class Windows(NamedTuple):
    """Windows over spatial axes: one number for each axis, two for padding."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]


def windows_of(attrs: OnnxAttrs, sizes: Sequence[int], taps: Sequence[int]) -> Windows:
    """The windows that attributes say for an image of spatial sizes."""
    rank = len(taps)
    strides = tuple(attrs.get("strides") or (1,) * rank)
    dilations = tuple(attrs.get("dilations") or (1,) * rank)
    given, rule = attrs.get("pads") or (0,) * (2 * rank), attrs.get("auto_pad", "NOTSET")
    if {len(sizes), len(strides), len(dilations), len(given) / 2} != {rank}:
        raise GraphError("a window has another rank than its image", why=f"{rank}, {len(sizes)}")
    pads, counts = [], []
    for i, (size, tap, stride, dilation) in enumerate(
        zip(sizes, taps, strides, dilations, strict=True)
    ):
        extent = (tap - 1) * dilation + 1
        before, after = (0, 0) if rule == "VALID" else (given[i], given[i + rank])
        if rule.startswith("SAME"):
            total = max(0, (-(-size // stride) - 1) * stride + extent - size)
            before = total // 2 if rule == "SAME_UPPER" else total - total // 2
            after = total - before
        free = size + before + after - extent
        count = (-(-free // stride) if attrs.get("ceil_mode", 0) else free // stride) + 1
        if attrs.get("ceil_mode", 0) and (count - 1) * stride >= size + before:
            count -= 1
        if count < 1 or before < 0 or after < 0:
            raise GraphError("a window does not fit into its image", why=counted(size, "element"))
        pads.append((before, after))
        counts.append(count)
    return Windows(tuple(taps), strides, dilations, tuple(pads), tuple(counts))


def patches(x: Array, windows: Windows, fill: float) -> Array:
    """[batch, channels, *counts, *taps] of a padded image."""
    table = [(0, 0), (0, 0)]
    for size, (before, after), count, stride, tap, dilation in zip(
        x.shape[2:],
        windows.pads,
        windows.counts,
        windows.strides,
        windows.taps,
        windows.dilations,
        strict=True,
    ):
        reach = (count - 1) * stride + (tap - 1) * dilation + 1
        table.append((before, max(after, reach - size - before)))
    padded = np.pad(x, table, constant_values=fill)
    extents = [(t - 1) * d + 1 for t, d in zip(windows.taps, windows.dilations, strict=True)]
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(padded, extents, axes)
    steps = [slice(None), slice(None)]
    steps += [
        slice(0, (n - 1) * s + 1, s) for n, s in zip(windows.counts, windows.strides, strict=True)
    ]
    steps += [slice(None, None, d) for d in windows.dilations]
    return view[tuple(steps)]


def after_channels(index: Sequence[Any]) -> Any:
    """An index of the spatial axes as one of the whole array."""
    return (slice(None), slice(None), *index)


def convolved(attrs: OnnxAttrs, x: Array, weights: Array) -> Array:
    """The sums of a convolution in groups, in the type of its operands."""
    group, rank = attrs.get("group", 1), x.ndim - 2
    if group < 1 or x.shape[1] != weights.shape[1] * group or weights.shape[0] % group:
        raise GraphError("channels, groups and weights do not fit together")
    windows = windows_of(attrs, x.shape[2:], weights.shape[2:])
    found = patches(x, windows, 0)
    parts = []
    inner = [1, *range(2 + rank, 2 + 2 * rank)]
    for data, part in zip(np.split(found, group, 1), np.split(weights, group, 0), strict=True):
        sums = np.tensordot(data, part, (inner, [1, *range(2, 2 + rank)]))
        parts.append(np.moveaxis(sums, -1, 1))
    return np.concatenate(parts, 1)


def _column(values: Array, rank: int) -> Array:
    return values.reshape(-1, *[1] * rank)


def _conv(attrs: OnnxAttrs, x: Array, weights: Array, bias: Any = None) -> Array:
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    made = convolved(attrs, x.astype(wide), weights.astype(wide))
    return made if bias is None else made + _column(bias.astype(wide), x.ndim - 2)


def _conv_cost(op: Op) -> Cost:
    weights, made = operand(op, 1), op.outputs[0]
    filters = max(1, weights.static_shape[0]) if weights.shape else 1
    return Cost(made.elements * (weights.elements // filters), moves_bytes(op).bytes)


def _spatial(op: Op, taps: Sequence[int | None], sizes: Shape | None = None) -> Shape:
    """The sizes of a result along its spatial axes, None where they are open."""
    attrs, sizes = attributes(op), operand(op, 0).shape[2:] if sizes is None else sizes
    if None in taps or len(taps) != len(sizes):
        return (None,) * len(sizes)
    known = windows_of(attrs, [1 << 20 if n is None else n for n in sizes], [t or 0 for t in taps])
    return tuple(None if n is None else c for n, c in zip(sizes, known.counts, strict=True))


def _infer_conv(op: Op) -> list[TensorType]:
    x, weights = operand(op, 0), operand(op, 1)
    if not (x.has_rank and weights.has_rank) or len(x.shape) < 3:
        return stated(op)
    sizes = _spatial(op, weights.shape[2:])
    return [TensorType(op.outputs[0].dtype, (x.shape[0], weights.shape[0], *sizes))]


def _infer_pool(op: Op) -> list[TensorType]:
    x = operand(op, 0)
    if not x.has_rank or len(x.shape) < 3:
        return stated(op)
    shape = (*x.shape[:2], *_spatial(op, attributes(op).get("kernel_shape") or ()))
    return [TensorType(output.dtype, shape) for output in op.outputs]


def _infer_transposed(op: Op) -> list[TensorType]:
    x, weights = operand(op, 0), operand(op, 1)
    if not (x.has_rank and weights.has_rank):
        return stated(op)
    filters, group = weights.shape[1], attributes(op).get("group", 1)
    if None in x.shape or None in weights.shape:
        lead = (x.shape[0], None if filters is None else filters * group)
        return [TensorType(op.outputs[0].dtype, (*lead, *(None,) * (len(x.shape) - 2)))]
    one = np.broadcast_to(np.float32(0), (1, weights.static_shape[0], *x.static_shape[2:]))
    tap = np.broadcast_to(np.float32(0), (weights.static_shape[0], 1, *weights.static_shape[2:]))
    sizes = _conv_transpose(attributes(op), one[:, :group], tap[:group]).shape[2:]
    made = (x.shape[0], (filters or 0) * group, *sizes)
    return [TensorType(op.outputs[0].dtype, made)]


onnx_kind("Conv", _conv, inputs=(2, 3), infer=_infer_conv, cost=_conv_cost)


def _conv_integer(
    attrs: OnnxAttrs, x: Array, weights: Array, x_zero: Any = None, w_zero: Any = None
) -> Array:
    data = x.astype(np.int32) - (0 if x_zero is None else x_zero.astype(np.int32))
    if w_zero is not None:
        zero = w_zero.astype(np.int32).reshape(-1, *[1] * (weights.ndim - 1))
        return convolved(attrs, data, weights.astype(np.int32) - zero)
    return convolved(attrs, data, weights.astype(np.int32))


def _nhwc_conv_integer(
    attrs: OnnxAttrs, x: Array, weights: Array, x_zero: Any = None, w_zero: Any = None
) -> Array:
    """ConvInteger of images and results with their channels last; filters are as there."""
    return np.moveaxis(_conv_integer(attrs, np.moveaxis(x, -1, 1), weights, x_zero, w_zero), 1, -1)


def _infer_nhwc_conv(op: Op) -> list[TensorType]:
    x, weights = operand(op, 0), operand(op, 1)
    if not (x.has_rank and weights.has_rank):
        return stated(op)
    sizes = _spatial(op, weights.shape[2:], x.shape[1:-1])
    return [TensorType(op.outputs[0].dtype, (x.shape[0], *sizes, weights.shape[0]))]


onnx_kind("ConvInteger", _conv_integer, inputs=(2, 4), infer=_infer_conv, cost=_conv_cost)
onnx_kind(
    "NhwcConvInteger", _nhwc_conv_integer, inputs=(2, 4), infer=_infer_nhwc_conv, cost=_conv_cost
)


def _conv_transpose(attrs: OnnxAttrs, x: Array, weights: Array, bias: Any = None) -> Array:
    """Each element adds its scaled filter to the result."""
    rank, group, taps = x.ndim - 2, attrs.get("group", 1), weights.shape[2:]
    strides = attrs.get("strides") or (1,) * rank
    dilations = attrs.get("dilations") or (1,) * rank
    extra = attrs.get("output_padding") or (0,) * rank
    sizes = x.shape[2:]
    full = [
        s * (n - 1) + (t - 1) * d + 1 + e
        for n, t, s, d, e in zip(sizes, taps, strides, dilations, extra, strict=True)
    ]
    made = np.zeros((x.shape[0], weights.shape[1] * group, *full), np.result_type(x, np.float32))
    for place in product(*map(range, taps)):
        at = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilations, sizes, strides, strict=True)
        )
        tap = np.asarray(weights[after_channels(place)])
        parts = [
            np.moveaxis(np.tensordot(data, part, ([1], [0])), -1, 1)
            for data, part in zip(np.split(x, group, 1), np.split(tap, group, 0), strict=True)
        ]
        made[after_channels(at)] += np.concatenate(parts, 1)
    made = _cropped(attrs, made, sizes, strides)
    return made if bias is None else made + _column(bias, rank)


def _cropped(attrs: OnnxAttrs, made: Array, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    rank, rule = len(sizes), attrs.get("auto_pad", "NOTSET")
    given, wanted = attrs.get("pads") or (0,) * (2 * rank), attrs.get("output_shape")
    taken: list[slice] = [slice(None), slice(None)]
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        full = made.shape[2 + i]
        before, after = given[i], given[i + rank]
        if wanted is not None or rule.startswith("SAME"):
            target = wanted[-rank:][i] if wanted is not None else size * stride
            total = full - target
            before = total // 2 if rule == "SAME_UPPER" else total - total // 2
            after = total - before
        if before < 0 or after < 0:
            table = [(0, 0)] * made.ndim
            table[2 + i] = (max(0, -before), max(0, -after))
            made, full = np.pad(made, table), full + max(0, -before) + max(0, -after)
            before, after = max(0, before), max(0, after)
        taken.append(slice(before, full - after))
    return made[tuple(taken)]


onnx_kind("ConvTranspose", _conv_transpose, inputs=(2, 3), infer=_infer_transposed, cost=_conv_cost)


def _pooled(function: Callable[[OnnxAttrs, Array, Windows], Array]) -> Callable[..., Array]:
    def run(attrs: OnnxAttrs, x: Array) -> Array:
        windows = windows_of(attrs, x.shape[2:], attrs.get("kernel_shape"))
        return function(attrs, x, windows)

    return run


def _window_axes(x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim, 2 * x.ndim - 2))


def _average(attrs: OnnxAttrs, x: Array, windows: Windows) -> Array:
    axes = _window_axes(x)
    total = patches(x.astype(np.float64), windows, 0).sum(axes)
    ones = np.ones((1, 1, *x.shape[2:]))
    if attrs.get("count_include_pad", 0):
        ones = np.pad(ones, [(0, 0), (0, 0), *windows.pads], constant_values=1)
        windows = windows._replace(pads=((0, 0),) * len(windows.taps))
    return np.asarray(total / patches(ones, windows, 0).sum(axes))


def _lp_pooled(attrs: OnnxAttrs, x: Array, windows: Windows) -> Array:
    order = attrs.get("p", 2)
    powers = np.abs(patches(x.astype(np.float64), windows, 0)) ** order
    return np.asarray(powers.sum(_window_axes(x)) ** (1 / order))


kinds({"AveragePool": _pooled(_average), "LpPool": _pooled(_lp_pooled)}, infer=_infer_pool)


def _max_pool(attrs: OnnxAttrs, x: Array) -> tuple[Array, Array]:
    """The largest of each window, and its place in the whole tensor."""
    windows = windows_of(attrs, x.shape[2:], attrs.get("kernel_shape"))
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    flat = (*x.shape[:2], *windows.counts, -1)
    found = patches(x, windows, least).reshape(flat)
    places = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if attrs.get("storage_order", 0):
        inner = np.arange(int(np.prod(x.shape[2:]))).reshape(x.shape[2:], order="F")
        outer = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
        places = outer * inner.size + inner
    best = np.argmax(found, -1)[..., None]
    numbers = patches(places, windows, 0).reshape(flat)
    taken = (np.take_along_axis(a, best, -1)[..., 0] for a in (found, numbers))
    return tuple(taken)  # type: ignore[return-value]


onnx_kind("MaxPool", _max_pool, infer=_infer_pool)


def _unpooled(attrs: OnnxAttrs, x: Array, places: Array, sizes: Any = None) -> Array:
    """Elements put back to the places that they were found at."""
    taps = attrs.get("kernel_shape")
    rank = len(taps)
    strides, pads = attrs.get("strides") or (1,) * rank, attrs.get("pads") or (0,) * (2 * rank)
    spatial = [
        (n - 1) * s + t - pads[i] - pads[i + rank]
        for i, (n, s, t) in enumerate(zip(x.shape[2:], strides, taps, strict=True))
    ]
    small = np.zeros((*x.shape[:2], *spatial), x.dtype)
    if sizes is None:
        small.reshape(-1)[places.reshape(-1)] = x.reshape(-1)
        return small
    made = np.zeros(tuple(int(n) for n in sizes), x.dtype)
    small.reshape(-1)[places.reshape(-1)] = x.reshape(-1)
    made[tuple(slice(n) for n in small.shape)] = small
    return made


onnx_kind("MaxUnpool", _unpooled, inputs=(2, 3))


def _over_pixels(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda attrs, x: function(attrs, x, tuple(range(2, x.ndim)))


def _global_lp(attrs: OnnxAttrs, x: Array, axes: tuple[int, ...]) -> Array:
    order = attrs.get("p", 2)
    return np.asarray((np.abs(x) ** order).sum(axes, keepdims=True) ** (1 / order))


kinds(
    {
        "GlobalAveragePool": _over_pixels(lambda a, x, axes: np.mean(x, axes, keepdims=True)),
        "GlobalMaxPool": _over_pixels(lambda a, x, axes: np.max(x, axes, keepdims=True)),
        "GlobalLpPool": _over_pixels(_global_lp),
    }
)
