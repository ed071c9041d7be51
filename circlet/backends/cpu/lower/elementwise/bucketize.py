"""BUCKETIZE by binary search: boundaries too many to compare each element with all of them."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.printer import EXPRESSION_TYPES
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
from circlet.ops.bits import BucketizeAttrs
from circlet.ops.operands import operand
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 11


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype not in (DType.FLOAT32, DType.INT32):
        return f"does not take {operand(op, 0).dtype.name}"
    return not_copyable(op.outputs[0])


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    boundaries = np.array(op.attributes(BucketizeAttrs).boundaries, np.float32)
    params: dict[str, ParamValue] = {
        "count": result.elements,
        "task_count": _TASK_ELEMENTS,
        "boundaries": boundaries.size,
    }
    kernel = Kernel("bucketize.h", "bucketize", (EXPRESSION_TYPES[source.dtype],))
    operands = (source_ref(context, source), context.constant(boundaries), TensorRef(result))
    tasks = -(-result.elements // _TASK_ELEMENTS)
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


LOWERINGS.add(Lowering("BUCKETIZE", "bucketize_search", _refuses, _lower, rank=Rank.COMPUTED))
