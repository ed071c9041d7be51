"""Means, sums, products, extremes and logic over constant axes; ARG_MAX and ARG_MIN along one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    layout_of,
    outer_fields,
    source_ref,
    stride_fields,
    strides_of,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.operands import QUANTISED, limits, operand, scale_of, zero_of
from circlet.ops.reduce import constant_axes, mean_multiplier
from circlet.ops.requantize import quantize_multiplier
from circlet.target.targets import Target

_MAX_REDUCED = 4
_BLOCK = 128
_TASK_ELEMENTS = 1 << 12
_KINDS = {
    "MEAN": "REDUCE_MEAN",
    "SUM": "REDUCE_SUM",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
    "REDUCE_PROD": "REDUCE_PROD",
    "REDUCE_ANY": "REDUCE_MAX",
    "REDUCE_ALL": "REDUCE_MIN",
}
_REQUANTISED = ("MEAN", "SUM")
_TYPES = {**ELEMENT_TYPES, DType.BOOL: "ELEMENT_U8"}
_WIDE = {
    DType.FLOAT64: "ELEMENT_F64",
    DType.INT64: "ELEMENT_I64",
    DType.INT32: "ELEMENT_I32",  # only of means, whose sums need 64 bits
}
_ARG_TYPES = {**_TYPES, **_WIDE}


@dataclass(frozen=True)
class _Axis:
    size: int
    stride: int
    is_reduced: bool


def _axes(
    sizes: tuple[int, ...], strides: tuple[int, ...], reduced: tuple[int, ...]
) -> list[_Axis]:
    """The axes in order, neighbours of one kind merged where their strides allow it."""
    axes: list[_Axis] = []
    for number, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        axis = _Axis(size, stride, number in reduced)
        if size == 1:
            continue
        last = axes[-1] if axes else None
        if last and last.is_reduced == axis.is_reduced and last.stride == stride * size:
            axes[-1] = _Axis(last.size * size, stride, axis.is_reduced)
        else:
            axes.append(axis)
    if not axes or axes[-1].stride != 1:
        axes.append(_Axis(1, 1, is_reduced=False))
    return axes


def _refuses(op: Op, target: Target) -> str | None:
    source, reduced = operand(op, 0), constant_axes(op)
    if reduced is None:
        return "the axes are not constant"
    if source.dtype not in _TYPES:
        return f"does not take {source.dtype.name}"
    if op.kind == "MEAN" and source.dtype == DType.INT32:
        return "does not take INT32"
    return not_copyable(source)


def _lower(op: Op, context: Context) -> None:
    source, result, reduced = operand(op, 0), op.outputs[0], constant_axes(op)
    assert reduced is not None
    strides = strides_of(source, layout_of(context, source))
    axes = _axes(source.static_shape, strides, reduced)
    elements = prod(source.static_shape[axis] for axis in reduced)
    params = {**_loops(axes, element_bytes(source)), **_numbers(op, elements)}
    requantises = int(source.dtype in QUANTISED and op.kind in _REQUANTISED)
    form = (requantises, int(axes[-1].is_reduced))
    arguments = (_KINDS[op.kind], _TYPES[source.dtype], *form)
    operands = (source_ref(context, source), TensorRef(result))
    kernel = Kernel("reduce.h", "reduce", arguments)
    context.call(op, kernel, params, operands, (result,), tasks=_tasks(axes))


def _loops(axes: list[_Axis], size: int) -> dict[str, ParamValue]:
    inner, outer = axes[-1], [axis for axis in axes[:-1] if not axis.is_reduced]
    reduced = [axis for axis in axes if axis.is_reduced]
    missing = _MAX_REDUCED - len(reduced)
    return {
        "rows": prod(axis.size for axis in outer),
        "rows_per_task": _rows_per_task(axes),
        "inner": 1 if inner.is_reduced else inner.size,
        "sizes": outer_fields(tuple(axis.size for axis in outer), MAX_AXES - 1),
        "source": stride_fields((*(axis.stride * size for axis in outer), size)),
        "reduced": [1] * missing + [axis.size for axis in reduced],
        "steps": [0] * missing + [axis.stride * size for axis in reduced],
    }


def _tasks(axes: list[_Axis]) -> int:
    inner, rows = axes[-1], prod(axis.size for axis in axes[:-1] if not axis.is_reduced)
    if inner.is_reduced:
        return -(-rows // _rows_per_task(axes))
    return rows * -(-inner.size // _BLOCK)


def _rows_per_task(axes: list[_Axis]) -> int:
    return max(1, _TASK_ELEMENTS // prod(axis.size for axis in axes if axis.is_reduced))


def _numbers(op: Op, elements: int) -> dict[str, ParamValue]:
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype not in QUANTISED or op.kind not in _REQUANTISED:
        return {"elements": float(elements)}
    mantissa, shift = quantize_multiplier(scale_of(source) / scale_of(result))
    if op.kind == "MEAN":
        mantissa, shift = mean_multiplier(op, elements)
    low, high = limits(result.dtype)
    return {
        "elements": float(elements),
        "centre": int(np.int64(zero_of(source) * elements).astype(np.int32)),
        "multiplier": mantissa,
        "shift": shift,
        "zero": zero_of(result),
        "low": low,
        "high": high,
    }


for _kind in _KINDS:
    LOWERINGS.add(
        Lowering(_kind, _kind.lower(), _refuses, _lower, strided_inputs=True, strided_any_rank=True)
    )


def _refuses_wide(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if constant_axes(op) is None:
        return "the axes are not constant"
    if source.dtype not in _WIDE or (source.dtype is DType.INT32 and op.kind != "MEAN"):
        return f"does not take {source.dtype.name}"
    return not_copyable(source)


def _lower_wide(op: Op, context: Context) -> None:
    source, result, reduced = operand(op, 0), op.outputs[0], constant_axes(op)
    assert reduced is not None
    strides = strides_of(source, layout_of(context, source))
    axes = _axes(source.static_shape, strides, reduced)
    loops = _loops(axes, element_bytes(source))
    params = {f"all_{name}": value for name, value in loops.items()}
    params["count"] = prod(source.static_shape[axis] for axis in reduced)
    rows = prod(axis.size for axis in axes[:-1] if not axis.is_reduced)
    operands = (source_ref(context, source), TensorRef(result))
    kernel = Kernel("reduce_wide.h", "reduce_wide", (_WIDE[source.dtype], _KINDS[op.kind]))
    context.call(op, kernel, params, operands, (result,), tasks=rows)


for _kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_wide",
            _refuses_wide,
            _lower_wide,
            strided_inputs=True,
            strided_any_rank=True,
            rank=Rank.ANY_TYPE,
        )
    )


def _refuses_arg(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if constant_axes(op) is None:
        return "the axis is not constant"
    if source.dtype not in _ARG_TYPES:
        return f"does not take {source.dtype.name}"
    return "a size is 0" if source.elements == 0 else None


def _lower_arg(op: Op, context: Context) -> None:
    source, result, axes = operand(op, 0), op.outputs[0], constant_axes(op)
    assert axes is not None
    shape, axis = source.static_shape, axes[0]
    rows, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    rows_per_task = max(1, _TASK_ELEMENTS // (shape[axis] * inner))
    params: dict[str, ParamValue] = {
        "rows": rows,
        "rows_per_task": rows_per_task,
        "count": shape[axis],
        "inner": inner,
    }
    arguments = (_ARG_TYPES[source.dtype], element_bytes(result), int(op.kind == "ARG_MIN"))
    kernel = Kernel("arg_min_max.h", "arg_min_max", arguments)
    operands = (source_ref(context, source), TensorRef(result))
    context.call(op, kernel, params, operands, (result,), tasks=-(-rows // rows_per_task))


for _kind in ("ARG_MAX", "ARG_MIN"):
    LOWERINGS.add(Lowering(_kind, _kind.lower(), _refuses_arg, _lower_arg))
