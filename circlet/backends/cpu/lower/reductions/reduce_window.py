"""REDUCE_WINDOW, and STABLEHLO_REDUCE_WINDOW where nothing is put around elements."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.joins import JOIN_TYPES, join_name
from circlet.backends.cpu.lower.views import TASK_BYTES, Sizes, outer_fields, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.stablehlo.reduce import window_join, windows_of
from circlet.target.targets import Target

_AXES = 6
_MOST_ROW_WORK = 1 << 27


def _strides(shape: Sizes) -> Sizes:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _refuses(op: Op, target: Target) -> str | None:
    source, result, windows = operand(op, 0), op.outputs[0], windows_of(op)
    if windows is None or not windows.is_plain:
        return "something is put between or around elements"
    reason = not_copyable(source) or not_copyable(result)
    if reason is not None or source.dtype not in JOIN_TYPES:
        return reason or f"does not take {source.dtype.name}"
    if len(windows.sizes) > _AXES:
        return f"rank {len(windows.sizes)} is above {_AXES}"
    if prod(windows.sizes) * result.static_shape[-1] > _MOST_ROW_WORK:
        return "a row of windows is more work than a task, which nothing stops, may be"
    return None


def _last(values: Sizes, count: int) -> list[int]:
    return [0] * (count - len(values)) + list(values)


def _lower(op: Op, context: Context) -> None:
    source, start, result, windows = operand(op, 0), operand(op, 1), op.outputs[0], windows_of(op)
    assert windows is not None
    own, shape = _strides(source.static_shape), result.static_shape
    steps = tuple(a * b for a, b in zip(own, windows.strides, strict=True))
    apart = tuple(a * b for a, b in zip(own, windows.dilations, strict=True))
    taps, rows = prod(windows.sizes), prod(shape[:-1])
    per_task = max(1, TASK_BYTES // (shape[-1] * taps * element_bytes(result)))
    params: dict[str, ParamValue] = {
        "rows": rows,
        "rows_per_task": per_task,
        "inner": shape[-1],
        "inner_step": steps[-1],
        "taps": taps,
        "sizes": outer_fields(shape[:-1], _AXES),
        "steps": [*_last(steps[:-1], _AXES), 0],
        "window": outer_fields(windows.sizes, _AXES),
        "window_steps": [*_last(apart, _AXES), 0],
    }
    join = join_name(window_join(op) or "", result.dtype, keeps_first=False)
    kernel = Kernel("reduce_window.h", "reduce_window", (join, JOIN_TYPES[result.dtype]))
    operands = (source_ref(context, source), source_ref(context, start), TensorRef(result))
    context.call(op, kernel, params, operands, (result,), tasks=-(-rows // per_task))


for _kind in ("REDUCE_WINDOW", "STABLEHLO_REDUCE_WINDOW"):
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_join", _refuses, _lower))
