"""Reductions, and softmaxes along any axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlet.ir import Op, Shape
from circlet.ops.onnx.record import OnnxAttrs, attributes, axis_of, kinds, onnx_kind, same, stated
from circlet.ops.opdef import TensorType
from circlet.ops.operands import known_ints, operand

Array = np.ndarray


def _infer(op: Op) -> list[TensorType]:
    """Sizes by the axes, where these are known."""
    attrs, x = attributes(op), operand(op, 0)
    axes = attrs.get("axes") if op.input(1) is None else known_ints(op.input(1))
    if not x.has_rank:
        return stated(op)
    if axes is None and op.input(1) is not None:
        return [TensorType(op.outputs[0].dtype, _of_unknown_axes(op, len(x.shape)))]
    rank = len(x.shape)
    if not axes and attrs.get("noop_with_empty_axes", 0):
        return [TensorType(op.outputs[0].dtype, x.shape)]
    places = {axis_of(axis, rank) for axis in axes or range(rank)}
    keep = attrs.get("keepdims", 1)
    sizes = [1 if i in places else n for i, n in enumerate(x.shape) if keep or i not in places]
    return [TensorType(op.outputs[0].dtype, tuple(sizes))]


def _of_unknown_axes(op: Op, rank: int) -> Shape:
    """As many open sizes as are left when so many axes go."""
    count = operand(op, 1).shape
    if attributes(op).get("keepdims", 1) or count == (0,):
        return (None,) * rank
    known = len(count) == 1 and count[0] is not None
    return (None,) * max(0, rank - (count[0] or 0)) if known else op.outputs[0].shape


def _reduced(function: Callable[..., Array]) -> Callable[..., Array]:
    """`function(x, axis, keepdims)` along the axes of the attribute or operand."""

    def run(attrs: OnnxAttrs, x: Array, axes: Any = None) -> Array:
        given = attrs.get("axes") if axes is None else axes.reshape(-1).tolist()
        if not given and attrs.get("noop_with_empty_axes", 0):
            return function(x, (), True) if function is not np.max else x
        places = tuple(axis_of(axis, x.ndim) for axis in given) if given else None
        return function(x, places, bool(attrs.get("keepdims", 1)))

    return run


def _sum(x: Array, axis: Any, keep: bool) -> Array:
    return np.asarray(np.sum(x, axis=axis, keepdims=keep, dtype=x.dtype))


def _extreme(least: bool) -> Callable[[Array, Any, bool], Array]:
    """Maximum or minimum; of nothing, what any element would replace."""

    def run(x: Array, axis: Any, keep: bool) -> Array:
        function = np.min if least else np.max
        if x.dtype == np.bool_:
            return np.asarray(function(x, axis=axis, keepdims=keep, initial=least))
        limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        start = limits.max if least else limits.min
        if x.dtype.kind == "f":
            start = np.inf if least else -np.inf
        return np.asarray(function(x, axis=axis, keepdims=keep, initial=start))

    return run


def _log_sum_exp(x: Array, axis: Any, keep: bool) -> Array:
    if axis == ():
        return x
    largest = _extreme(False)(x, axis, True)
    safe = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.sum(np.exp(x - safe), axis=axis, keepdims=True)) + safe
    return total if keep else np.squeeze(total, axis=axis)


kinds(
    {
        "ReduceSum": _reduced(_sum),
        "ReduceMean": _reduced(lambda x, a, k: np.asarray(np.mean(x, axis=a, keepdims=k))),
        "ReduceProd": _reduced(lambda x, a, k: np.prod(x, axis=a, keepdims=k, dtype=x.dtype)),
        "ReduceMax": _reduced(_extreme(False)),
        "ReduceMin": _reduced(_extreme(True)),
        "ReduceL1": _reduced(lambda x, a, k: _sum(np.abs(x), a, k)),
        "ReduceL2": _reduced(lambda x, a, k: np.sqrt(_sum(np.square(x), a, k))),
        "ReduceSumSquare": _reduced(lambda x, a, k: _sum(np.square(x), a, k)),
        "ReduceLogSum": _reduced(lambda x, a, k: np.log(_sum(x, a, k))),
        "ReduceLogSumExp": _reduced(_log_sum_exp),
    },
    infer=_infer,
    inputs=(1, 2),
)


def _arg(largest: bool) -> Callable[..., Array]:
    def run(attrs: OnnxAttrs, x: Array) -> Array:
        axis, function = attrs.get("axis", 0), np.argmax if largest else np.argmin
        if attrs.get("select_last_index", 0):
            found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            found = function(x, axis=axis)
        return np.expand_dims(found, axis) if attrs.get("keepdims", 1) else np.asarray(found)

    return run


kinds({"ArgMax": _arg(True), "ArgMin": _arg(False)})


def _flat(attrs: OnnxAttrs, x: Array) -> tuple[Array, int]:
    """What a softmax runs along: before operator set 13 all axes from one on, as one."""
    if attrs.opset >= 13:
        return x, int(attrs.get("axis", -1))
    axis = axis_of(attrs.get("axis", 1), max(x.ndim, 1))
    return x.reshape(int(np.prod(x.shape[:axis])), -1), 1


def _softmax(attrs: OnnxAttrs, x: Array) -> Array:
    flat, axis = _flat(attrs, x)
    powers = np.exp(flat - np.max(flat, axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True)).reshape(x.shape)


def _log_softmax(attrs: OnnxAttrs, x: Array) -> Array:
    flat, axis = _flat(attrs, x)
    low = flat - np.max(flat, axis=axis, keepdims=True, initial=-np.inf)
    made = low - np.log(np.sum(np.exp(low), axis=axis, keepdims=True))
    return np.asarray(made).reshape(x.shape)


def _hardmax(attrs: OnnxAttrs, x: Array) -> Array:
    flat, axis = _flat(attrs, x)
    made = np.zeros_like(flat)
    if not flat.size:
        return made.reshape(x.shape)
    np.put_along_axis(made, np.expand_dims(np.argmax(flat, axis=axis), axis), 1, axis)
    return made.reshape(x.shape)


def _lp_normalised(attrs: OnnxAttrs, x: Array) -> Array:
    axis, order = attrs.get("axis", -1), attrs.get("p", 2)
    norm = np.linalg.norm(x, ord=order, axis=axis, keepdims=True)
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


kinds(
    {
        "Softmax": _softmax,
        "LogSoftmax": _log_softmax,
        "Hardmax": _hardmax,
        "LpNormalization": _lp_normalised,
    },
    infer=same,
)


def _cumulative(function: Callable[..., Array], start: int) -> Callable[..., Array]:
    def run(attrs: OnnxAttrs, x: Array, axis: Array) -> Array:
        place = axis_of(int(axis.reshape(-1)[0]), x.ndim)
        made = np.flip(x, place) if attrs.get("reverse", 0) else x
        made = function(made, axis=place, dtype=x.dtype)
        if attrs.get("exclusive", 0) and x.shape[place]:
            first = np.full_like(np.take(made, [0], place), start)
            kept = np.take(made, range(x.shape[place] - 1), place)
            made = np.concatenate([first, kept], place)
        return np.flip(made, place) if attrs.get("reverse", 0) else made

    return run


kinds(
    {"CumSum": _cumulative(np.cumsum, 0), "CumProd": _cumulative(np.cumprod, 1)},
    infer=same,
    inputs=(2, 2),
)


def _einsum(attrs: OnnxAttrs, *arrays: Any) -> Array:
    given = [array for array in arrays if array is not None]
    return np.einsum(attrs.get("equation").replace(" ", ""), *map(_computable, given))


def _computable(array: Array) -> Array:
    """An array of a type that sums of products know; those of ml_dtypes as float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


onnx_kind("Einsum", _einsum, inputs=(1, 32))
onnx_kind("Det", lambda attrs, x: np.linalg.det(x))
