"""Ops that move elements: reshapes, TRANSPOSE, CONCATENATION, PAD."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import (
    copy_loops,
    element_bytes,
    fill_pattern,
    not_copyable,
)
from circlet.backends.cpu.lower.elementwise.lut import lut_loops
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    Loops,
    layout_of,
    outer_fields,
    row_tasks,
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
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops import get
from circlet.ops.layout import concatenation_axis, pad_value, paddings, permutation
from circlet.ops.operands import operand
from circlet.target.targets import Target

_IDENTITY = np.arange(256, dtype=np.uint8)


def _refuses_reshape(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _lower_reshape(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    loops = Loops((result.elements,), ((1,), (1,)))
    copy_loops(op, context, source_ref(context, source), TensorRef(result), loops)


for _kind in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST", "DENSIFY"):
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_copy", _refuses_reshape, _lower_reshape))


def _refuses_transpose(op: Op, target: Target) -> str | None:
    if permutation(op) is None:
        return "the permutation is not constant"
    return not_copyable(op.outputs[0])


def _lower_transpose(op: Op, context: Context) -> None:
    source, result, order = operand(op, 0), op.outputs[0], permutation(op)
    assert order is not None
    strides = strides_of(source, layout_of(context, source))
    loops = Loops(
        result.static_shape,
        (tuple(strides[axis] for axis in order), strides_of(result, context.layout(result))),
    )
    copy_loops(op, context, source_ref(context, source), TensorRef(result), loops)


LOWERINGS.add(
    Lowering(
        "TRANSPOSE",
        "transpose",
        _refuses_transpose,
        _lower_transpose,
        strided_inputs=True,
        strided_output=True,
    )
)


def _refuses_concatenation(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _lower_concatenation(op: Op, context: Context) -> None:
    result, axis, start = op.outputs[0], concatenation_axis(op), 0
    strides = strides_of(result, context.layout(result))
    for part in op.inputs:
        assert part is not None
        size = part.static_shape[axis]
        if size and not context.shares(part, result):
            _copy_part(op, context, part, TensorRef(result, start * strides[axis]))
        start += size


def _rescale_table(op: Op, part: Tensor) -> np.ndarray:
    """What the record makes of each stored value of a part."""
    values = _IDENTITY.reshape(-1, *(1,) * (len(part.static_shape) - 1))
    return get(op).evaluate(replace(op, inputs=[part]), [values])[0].reshape(-1)


def _copy_part(op: Op, context: Context, part: Tensor, target: TensorRef) -> None:
    result = target.tensor
    strides = (
        strides_of(part, layout_of(context, part)),
        strides_of(result, context.layout(result)),
    )
    loops = Loops(part.static_shape, strides)
    table = _rescale_table(op, part) if result.dtype == DType.UINT8 else _IDENTITY
    if np.array_equal(table, _IDENTITY):
        copy_loops(op, context, source_ref(context, part), target, loops)
    else:
        lut_loops(op, context, part, context.constant(table), target, loops)


LOWERINGS.add(
    Lowering(
        "CONCATENATION",
        "concatenation",
        _refuses_concatenation,
        _lower_concatenation,
        strided_inputs=True,
        strided_output=True,
    )
)


@dataclass(frozen=True)
class _PadAxis:
    """One axis of a PAD: sizes of the result and the source, where the source starts, strides."""

    size: int
    first: int
    count: int
    source: int
    result: int

    def merges(self, inner: _PadAxis) -> bool:
        """Whether this axis and the next inner one are one axis."""
        return (
            inner.count == inner.size
            and self.source == inner.source * inner.count
            and self.result == inner.result * inner.size
        )

    def with_inner(self, inner: _PadAxis) -> _PadAxis:
        """Both axes as one."""
        n = inner.size
        return _PadAxis(self.size * n, self.first * n, self.count * n, inner.source, inner.result)


def _refuses_pad(op: Op, target: Target) -> str | None:
    fill = op.input(2)
    if paddings(op) is None:
        return "the paddings are not constant"
    if fill is not None and not fill.is_constant:
        return "the value to fill with is not constant"
    return not_copyable(op.outputs[0]) or not_copyable(operand(op, 0))


def _pad_axes(op: Op, context: Context) -> list[_PadAxis]:
    source, result, amounts = operand(op, 0), op.outputs[0], paddings(op)
    assert amounts is not None
    rows = zip(
        result.static_shape,
        (before for before, _ in amounts),
        source.static_shape,
        strides_of(source, layout_of(context, source)),
        strides_of(result, context.layout(result)),
        strict=True,
    )
    axes: list[_PadAxis] = []
    for axis in (_PadAxis(*row) for row in rows):
        if axis.size == 1:
            continue
        if axes and axes[-1].merges(axis):
            axes[-1] = axes[-1].with_inner(axis)
        else:
            axes.append(axis)
    if not axes or axes[-1].source != 1 or axes[-1].result != 1:
        axes.append(_PadAxis(1, 0, 1, 1, 1))
    return axes


def _lower_pad(op: Op, context: Context) -> None:
    source, result, axes = operand(op, 0), op.outputs[0], _pad_axes(op, context)
    size, outer, inner = element_bytes(result), axes[:-1], axes[-1]
    fields, tasks = row_tasks(prod(axis.size for axis in outer), inner.size * size)
    params: dict[str, ParamValue] = {
        **fields,
        "before": inner.first * size,
        "copied": inner.count * size,
        "after": (inner.size - inner.first - inner.count) * size,
        "pattern": fill_pattern(result, _fill_value(op)),
        "sizes": outer_fields(tuple(axis.size for axis in outer), MAX_AXES - 1),
        "first": [0] * (MAX_AXES - 1 - len(outer)) + [axis.first for axis in outer],
        "count": outer_fields(tuple(axis.count for axis in outer), MAX_AXES - 1),
        "source": stride_fields((*(axis.source * size for axis in outer), 1)),
        "result": stride_fields((*(axis.result * size for axis in outer), 1)),
    }
    operands = (source_ref(context, source), TensorRef(result))
    kernel = Kernel("copy.h", "pad_rows")
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _fill_value(op: Op) -> int | float:
    fill = op.input(2)
    if fill is None or fill.data is None:
        return pad_value(op)
    value: int | float = np.asarray(fill.data).reshape(-1)[0].item()
    return value


for _kind in ("PAD", "PADV2"):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_rows",
            _refuses_pad,
            _lower_pad,
            strided_inputs=True,
            strided_output=True,
        )
    )
