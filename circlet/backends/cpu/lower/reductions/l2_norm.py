"""L2_NORMALIZATION of float rows."""

from __future__ import annotations

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, TensorRef
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 12


def _refuses(op: Op, target: Target) -> str | None:
    source = operand(op, 0)
    if source.dtype != DType.FLOAT32:
        return f"does not take {source.dtype.name}"
    return "a size is 0" if source.elements == 0 else None


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    count = source.static_shape[-1]
    rows = source.elements // count
    per_task = max(1, _TASK_ELEMENTS // count)
    context.call(
        op,
        Kernel("l2_norm.h", "l2_norm"),
        {"rows": rows, "rows_per_task": per_task, "count": count},
        (source_ref(context, source), TensorRef(result)),
        (result,),
        tasks=-(-rows // per_task),
    )


LOWERINGS.add(Lowering("L2_NORMALIZATION", "l2_norm_f32", _refuses, _lower))
