"""8-bit functions of one operand: a table of 256 results."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.views import (
    Loops,
    element_loops,
    merged,
    row_fields,
    source_ref,
    stride_fields,
    with_inner,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, TensorRef
from circlet.backends.cpu.targets import Target
from circlet.ir import Op, Tensor
from circlet.ops import all_records
from circlet.ops.lut import EIGHT_BIT, table_of
from circlet.ops.operands import operand


def lut_loops(
    op: Op, context: Context, source: Tensor, table: np.ndarray, target: TensorRef, loops: Loops
) -> None:
    """Map `source` through a table by loops over the source and the target."""
    loops = with_inner(merged(loops), (1,))
    params, tasks = row_fields(loops.sizes, 1)
    params["source"], params["result"] = map(stride_fields, loops.strides)
    operands = (source_ref(context, source), context.constant(table), target)
    context.call(op, Kernel("lut.h", "lut"), params, operands, (target.tensor,), tasks=tasks)


def _refuses(op: Op, target: Target) -> str | None:
    source, result = operand(op, 0), op.outputs[0]
    if len(op.inputs) != 1 or {source.dtype, result.dtype} - EIGHT_BIT:
        return "takes one 8-bit operand"
    return not_copyable(result) or (None if table_of(op) is not None else "has no table")


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    table = table_of(op)
    assert table is not None
    loops = element_loops(context, (source, result), result.static_shape)
    lut_loops(op, context, source, table, TensorRef(result), loops)


for _record in all_records():
    if _record.scalar is not None and _record.arity[0] == 1:
        LOWERINGS.add(
            Lowering(
                _record.kind,
                f"{_record.kind.lower()}_lut",
                _refuses,
                _lower,
                strided_inputs=True,
                strided_output=True,
            )
        )
