"""int16 functions of one operand that only a table computes: all 65536 results."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, Rank, TensorRef
from circlet.ir import DType, Op
from circlet.ops import get
from circlet.ops.operands import operand
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 13
_KINDS = ("EXP", "GELU", "LOG", "LOGISTIC", "RSQRT", "SQRT", "TANH")


def _refuses(op: Op, target: Target) -> str | None:
    if {operand(op, 0).dtype, op.outputs[0].dtype} != {DType.INT16}:
        return "not int16"
    return "a size is 0" if op.outputs[0].elements == 0 else None


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    every = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    table = context.constant(get(op).evaluate(op, [every])[0])
    context.call(
        op,
        Kernel("lut16.h", "lut16"),
        {"count": result.elements, "per_task": _TASK_ELEMENTS},
        (source_ref(context, source), table, TensorRef(result)),
        (result,),
        tasks=-(-result.elements // _TASK_ELEMENTS),
    )


for _kind in _KINDS:
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_lut16", _refuses, _lower, rank=Rank.TABLE_16))
