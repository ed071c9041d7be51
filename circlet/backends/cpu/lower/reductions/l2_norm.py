"""L2_NORMALIZATION of rows."""

from __future__ import annotations

from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.views import source_ref
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
from circlet.ops.operands import operand, zero_of
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 12


def _refuses(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype != DType.FLOAT32:
        return f"does not take {source.dtype.name}"
    return "a size is 0" if source.elements == 0 else None


def _refuses_stored(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype not in (DType.INT8, DType.UINT8):
        return f"does not take {source.dtype.name}"
    return "a size is 0" if source.elements == 0 else None


def _call(op: Op, context: Context, kernel: Kernel, params: dict[str, ParamValue]) -> None:
    source, result = operand(op, 0), op.outputs[0]
    count = source.static_shape[-1]
    rows = source.elements // count
    per_task = max(1, _TASK_ELEMENTS // count)
    context.call(
        op,
        kernel,
        {"rows": rows, "rows_per_task": per_task, "count": count, **params},
        (source_ref(context, source), TensorRef(result)),
        (result,),
        tasks=-(-rows // per_task),
    )


def _lower(op: Op, context: Context) -> None:
    _call(op, context, Kernel("l2_norm.h", "l2_norm"), {})


def _lower_stored(op: Op, context: Context) -> None:
    source = operand(op, 0)
    kernel = Kernel("l2_norm_q8.h", "l2_norm_q8", (ELEMENT_TYPES[source.dtype],))
    _call(op, context, kernel, {"zero": zero_of(source)})


LOWERINGS.add(Lowering("L2_NORMALIZATION", "l2_norm_f32", _refuses, _lower))
LOWERINGS.add(
    Lowering("L2_NORMALIZATION", "l2_norm_q8", _refuses_stored, _lower_stored, rank=Rank.INT8)
)
