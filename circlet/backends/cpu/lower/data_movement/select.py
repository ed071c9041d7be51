"""SELECT and SELECT_V2: elements of one of two operands by a condition."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.data_movement.slices import strides_in
from circlet.backends.cpu.lower.views import (
    Loops,
    Sizes,
    broadcast_strides,
    merged,
    row_fields,
    source_ref,
    stride_fields,
    with_inner,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, TensorRef
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _condition_strides(op: Op, context: Context, shape: Sizes) -> Sizes:
    condition = operand(op, 0)
    own, sizes = strides_in(context, condition), condition.static_shape
    if op.kind == "SELECT" and len(sizes) == 1 < len(shape):
        return (0 if sizes[0] == 1 else own[0], *(0,) * (len(shape) - 1))
    return broadcast_strides(own, sizes, shape)


def _lower(op: Op, context: Context) -> None:
    result = op.outputs[0]
    shape, size = result.static_shape, element_bytes(result)
    settings = [operand(op, 1), operand(op, 2)]
    rows = [broadcast_strides(strides_in(context, t), t.static_shape, shape) for t in settings]
    strides = (_condition_strides(op, context, shape), *rows, strides_in(context, result))
    loops = with_inner(merged(Loops(shape, strides)), (0, 1))
    if loops.strides[-1][-1] == 0:
        loops = Loops((*loops.sizes, 1), tuple((*row, 1) for row in loops.strides))
    params, tasks = row_fields(loops.sizes, 3 * size)
    names = ("condition", "first", "second", "result")
    scaled = loops.scaled(1, size, size, size).strides
    params.update({name: stride_fields(row) for name, row in zip(names, scaled, strict=True)})
    flags = [int(row[-1] == 0) for row in loops.strides[:3]]
    operands = (*(source_ref(context, operand(op, i)) for i in range(3)), TensorRef(result))
    kernel = Kernel("select.h", "select_elements", (size, *flags))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


for _kind in ("SELECT", "SELECT_V2"):
    LOWERINGS.add(
        Lowering(
            _kind,
            _kind.lower(),
            _refuses,
            _lower,
            strided_inputs=True,
            strided_output=True,
        )
    )
