"""STABLEHLO_GATHER and STABLEHLO_SCATTER: windows that lie where index vectors point.

A SLICE from a place that a run computes gathers one such window.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from circlet.backends.cpu.lower.copy import copy_loops, element_bytes, not_copyable
from circlet.backends.cpu.lower.joins import JOIN_TYPES, join_name
from circlet.backends.cpu.lower.views import Loops, Sizes, outer_fields, row_tasks, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops.operands import known_ints, operand
from circlet.ops.stablehlo.indexed import GatherAttrs, places_of, update_join
from circlet.target.targets import Target

_OUTER, _DEPTH, _NO_AXIS = 6, 6, 7


class _Walk(NamedTuple):
    """How the axes of a gather's result, or of a scatter's updates, are gone along.

    Attributes:
        sizes: Outer sizes.
        index_steps: Elements of the indices along them.
        axes: The axis of the operand that each of them is, or `_NO_AXIS`.
        inner: Elements of the innermost axis, where that is one of windows, else 1.
        inner_axis: The axis of the operand that it is, or `_NO_AXIS`.
        vector_step: Elements of the indices from one index of a vector to the next.
    """

    sizes: Sizes
    index_steps: Sizes
    axes: Sizes
    inner: int
    inner_axis: int
    vector_step: int


def _strides(shape: Sizes) -> Sizes:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _walk(op: Op, walked: Tensor) -> _Walk:
    places, shape = places_of(op), walked.static_shape
    indices = operand(op, 1).static_shape
    steps, vector = _strides(indices), places.vector_axis
    batch = iter(steps[:vector] + steps[vector + 1 :])
    windows = dict(zip(places.window_axes, places.operand_axes, strict=True))
    axes = [windows.get(axis, _NO_AXIS) for axis in range(len(shape))]
    along = [0 if axis in windows else next(batch) for axis in range(len(shape))]
    inner, inner_axis = 1, _NO_AXIS
    if axes and axes[-1] != _NO_AXIS:
        inner, inner_axis = shape[-1], axes[-1]
        shape, axes, along = shape[:-1], axes[:-1], along[:-1]
    step = steps[vector] if vector < len(steps) else 0
    return _Walk(shape, tuple(along), tuple(axes), inner, inner_axis, step)


def _refuses(op: Op, target: Target) -> str | None:
    walked = op.outputs[0] if op.kind == "STABLEHLO_GATHER" else operand(op, 2)
    tensors = (*(t for t in op.inputs if t is not None), *op.outputs)
    reason = next((reason for t in tensors if (reason := not_copyable(t))), None)
    if reason is not None:
        return reason
    if len(_walk(op, walked).sizes) > _OUTER or len(places_of(op).named_axes) > _DEPTH:
        return f"more than {_OUTER} axes"
    if op.kind == "STABLEHLO_SCATTER" and walked.dtype not in JOIN_TYPES:
        return f"does not take {walked.dtype.name}"
    return None


def _padded(values: Sizes, count: int, rest: int = 0) -> list[int]:
    return [*values, *(rest,) * (count - len(values))]


def _behind(values: Sizes, count: int, rest: int = 0) -> list[int]:
    return [*(rest,) * (count - len(values)), *values]


def _lower_gather(op: Op, context: Context) -> None:
    source, indices, result = operand(op, 0), operand(op, 1), op.outputs[0]
    walk, places, shape = _walk(op, result), places_of(op), source.static_shape
    strides, taken = (*_strides(shape), *(0,) * 8)[:8], op.attributes(GatherAttrs).slice_sizes
    size, rows = element_bytes(result), prod(walk.sizes)
    fields, tasks = row_tasks(rows, walk.inner * size)
    named = places.named_axes
    params: dict[str, ParamValue] = {
        **fields,
        "inner": walk.inner,
        "inner_step": strides[walk.inner_axis],
        "depth": len(named),
        "vector_step": walk.vector_step,
        "sizes": outer_fields(walk.sizes, _OUTER),
        "index_steps": [*_behind(walk.index_steps, _OUTER), 0],
        "steps": [*_behind(tuple(strides[axis] for axis in walk.axes), _OUTER), 0],
        "last_start": _padded(tuple(shape[axis] - taken[axis] for axis in named), _DEPTH),
        "starts": _padded(tuple(strides[axis] for axis in named), _DEPTH),
    }
    operands = (source_ref(context, source), source_ref(context, indices), TensorRef(result))
    kernel = Kernel("indexed.h", "gather_windows", (element_bytes(indices), size))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _lower_scatter(op: Op, context: Context) -> None:
    source, indices, updates = (operand(op, index) for index in range(3))
    result, walk, shape = op.outputs[0], _walk(op, updates), source.static_shape
    whole = Loops((result.elements,), ((1,), (1,)))
    copy_loops(op, context, source_ref(context, source), TensorRef(result), whole)
    params: dict[str, ParamValue] = {
        "rows": prod(walk.sizes),
        "inner": walk.inner,
        "inner_axis": walk.inner_axis,
        "depth": len(places_of(op).named_axes),
        "vector_step": walk.vector_step,
        "sizes": outer_fields(walk.sizes, _OUTER),
        "index_steps": _behind(walk.index_steps, _OUTER),
        "axes": _behind(walk.axes, _OUTER, _NO_AXIS),
        "named": _padded(places_of(op).named_axes, _DEPTH),
        "shape": _padded(shape, 8, 1),
        "strides": _padded(_strides(shape), 8),
    }
    operands = (source_ref(context, indices), source_ref(context, updates), TensorRef(result))
    join = join_name(update_join(op) or "", result.dtype, keeps_first=True)
    arguments = (element_bytes(indices), join, JOIN_TYPES[result.dtype])
    kernel = Kernel("indexed.h", "scatter_windows", arguments)
    context.call(op, kernel, params, operands, (result,))


def _as_gather(op: Op) -> Op:
    """The gather of one window, with all axes, that a SLICE of known sizes is."""
    sizes = op.outputs[0].static_shape
    axes = tuple(range(len(sizes)))
    attrs = GatherAttrs(axes, (), axes, 0, sizes)
    return replace(op, kind="STABLEHLO_GATHER", inputs=op.inputs[:2], attrs=attrs)


def _refuses_slice(op: Op, target: Target) -> str | None:
    if known_ints(op.input(2)) is None:
        return "the sizes are not constant"
    if not op.outputs[0].static_shape:
        return "a scalar has no windows"
    return _refuses(_as_gather(op), target)


def _lower_slice(op: Op, context: Context) -> None:
    _lower_gather(_as_gather(op), context)


LOWERINGS.add(Lowering("SLICE", "slice_windows", _refuses_slice, _lower_slice, rank=Rank.DENSE))
LOWERINGS.add(Lowering("STABLEHLO_GATHER", "gather_windows", _refuses, _lower_gather))
LOWERINGS.add(Lowering("STABLEHLO_SCATTER", "scatter_windows", _refuses, _lower_scatter))
