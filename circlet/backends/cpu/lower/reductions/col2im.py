"""ONNX's Col2Im: columns of patches added to images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import known_ints, operand
from circlet.target.targets import Target

_AXES = 3
_MOST_ENTRIES = 1 << 20  # of a table
_TASK_WORK, _MOST_TASK_WORK = 1 << 13, 1 << 29  # additions


class _Axis(NamedTuple):
    """One spatial axis of images and of the patches over them."""

    size: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    behind: int = 0

    @property
    def padded(self) -> int:
        return self.before + self.size + self.behind

    @property
    def patches(self) -> int:
        """Patches along the axis."""
        return (self.padded - self.dilation * (self.taps - 1) - 1) // self.stride + 1


def _axes(op: Op) -> list[_Axis]:
    """As many axes as the kernel has, those of size 1 first; none where they are not known."""
    sizes, taps = known_ints(op.input(1)), known_ints(op.input(2))
    if not sizes or taps is None or len(sizes) != len(taps) or len(sizes) > _AXES:
        return []
    attrs, rank = attributes(op), len(sizes)
    ones = (1,) * rank
    pads = attrs.get("pads") or (0,) * (2 * rank)
    steps = (attrs.get("strides") or ones, attrs.get("dilations") or ones)
    rows = zip(sizes, taps, *steps, pads[:rank], pads[rank:], strict=True)
    return [*[_Axis()] * (_AXES - rank), *(_Axis(*row) for row in rows)]


def _patches(axis: _Axis) -> np.ndarray:
    """[size, taps] INT32: which patch has an element at a tap, -1 where none has."""
    places = np.arange(axis.size)[:, None] + axis.before
    at = places - np.arange(axis.taps) * axis.dilation
    patch, rest = np.divmod(at, axis.stride)
    return np.where((rest == 0) & (patch >= 0) & (patch < axis.patches), patch, -1).astype(np.int32)


def _phases(axis: _Axis) -> tuple[np.ndarray, np.ndarray]:
    """The phases of a row by their first element, and taps by phases, as `col2im.h` has them."""
    at = np.arange(axis.taps) * axis.dilation
    phases: list[tuple[int, ...]] = []
    taps: list[tuple[int, int]] = []
    for start in range(min(axis.stride, axis.size)):
        first, phase = divmod(start + axis.before, axis.stride)
        met = np.flatnonzero(at % axis.stride == phase)
        phases.append((first, _run(axis, start), len(taps), len(taps) + len(met)))
        taps += [(int(tap), int(at[tap]) // axis.stride) for tap in met]
    return np.array(phases, np.int32), np.array([*taps, (0, 0)], np.int32)


def _run(axis: _Axis, start: int = 0) -> int:
    """Elements of a row that are a stride apart."""
    return -(-(axis.size - start) // axis.stride)


def _refuses(op: Op, target: Target) -> str | None:
    source, axes = operand(op, 0), _axes(op)
    if source.dtype is not DType.FLOAT32 or source.is_constant:
        return f"does not take {source.dtype.name}, or a constant"
    if not axes or min(min(axis[:4]) for axis in axes) < 1:
        return f"sizes are not known, or there are more than {_AXES} axes"
    if any(axis.patches < 1 or min(axis[4:]) < 0 for axis in axes):
        return "a patch does not fit"
    columns = prod(axis.patches for axis in axes)
    shape = source.static_shape
    if len(shape) != 3 or shape[1] % prod(axis.taps for axis in axes) or shape[2] != columns:
        return "operands do not fit each other"
    if max(axis.size * axis.taps for axis in axes) > _MOST_ENTRIES or not op.outputs[0].elements:
        return "a table of rows would be large, or a size is 0"
    is_long = _row_work(axes) > _MOST_TASK_WORK
    return "a task, which nothing stops, is too much work" if is_long else None


def _row_work(axes: Sequence[_Axis]) -> int:
    return prod(axis.taps for axis in axes) * axes[-1].size


def _lower(op: Op, context: Context) -> None:
    source, result, axes = operand(op, 0), op.outputs[0], _axes(op)
    planes, rows, across = axes
    phases, taps = _phases(across)
    count = result.elements // across.size
    per_task = max(1, _TASK_WORK // _row_work(axes))
    params: dict[str, ParamValue] = {
        "rows": count,
        "rows_per_task": per_task,
        "planes": planes.size,
        "height": rows.size,
        "width": across.size,
        "counts": [axis.patches for axis in axes],
        "taps": [axis.taps for axis in axes],
        "stride": across.stride,
        "phases": len(phases),
        "run": _run(across),
    }
    tables = (_patches(planes), _patches(rows), phases, taps)
    operands = (source_ref(context, source), TensorRef(result), *map(context.constant, tables))
    context.call(
        op,
        Kernel("col2im.h", "col2im"),
        params,
        operands,
        (result,),
        tasks=-(-count // per_task),
        scratch_bytes=8 * planes.taps * rows.taps + 4 * _run(across) * across.stride,
    )


LOWERINGS.add(Lowering(f"CUSTOM:{PREFIX}Col2Im", "col2im", _refuses, _lower))
