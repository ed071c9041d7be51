"""Ops that choose by a condition or work along one axis in order."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.moves.slices import strides_in
from circlet.backends.cpu.lower.views import (
    Loops,
    Sizes,
    merged,
    row_fields,
    source_ref,
    spread,
    stride_fields,
    with_inner,
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
from circlet.ops.operands import operand
from circlet.ops.order import CumsumAttrs, only_axis, sequence_axes, top_count
from circlet.target.targets import Target

_TASK_BYTES = 1 << 15
_TYPES = {
    DType.FLOAT32: "ORDER_F32",
    DType.INT8: "ORDER_I8",
    DType.UINT8: "ORDER_U8",
    DType.INT16: "ORDER_I16",
    DType.INT32: "ORDER_I32",
    DType.INT64: "ORDER_I64",
}


def _refuses_choice(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _condition_strides(op: Op, context: Context, shape: Sizes) -> Sizes:
    condition = operand(op, 0)
    own, sizes = strides_in(context, condition), condition.static_shape
    if op.kind == "SELECT" and len(sizes) == 1 < len(shape):
        return (0 if sizes[0] == 1 else own[0], *(0,) * (len(shape) - 1))
    return spread(own, sizes, shape)


def _lower_choice(op: Op, context: Context) -> None:
    result = op.outputs[0]
    shape, size = result.static_shape, element_bytes(result)
    choices = [operand(op, 1), operand(op, 2)]
    rows = [spread(strides_in(context, t), t.static_shape, shape) for t in choices]
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
    kernel = Kernel("moves.h", "choose", (size, *flags))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


for _kind in ("SELECT", "SELECT_V2"):
    LOWERINGS.add(
        Lowering(
            _kind,
            _kind.lower(),
            _refuses_choice,
            _lower_choice,
            strided_inputs=True,
            strided_output=True,
        )
    )


def _lower_reverse_sequence(op: Op, context: Context) -> None:
    data, lengths, result = operand(op, 0), operand(op, 1), op.outputs[0]
    shape = result.static_shape
    sequence, batch = sequence_axes(op, len(shape))
    last = max(sequence, batch) + 1
    rows, run = prod(shape[:last]), prod(shape[last:])
    rows_per_task = max(1, _TASK_BYTES // (run * element_bytes(result)))
    params: dict[str, ParamValue] = {
        "rows": rows,
        "rows_per_task": rows_per_task,
        "run_bytes": run * element_bytes(result),
        "sequence": shape[sequence],
        "sequence_rows": prod(shape[sequence + 1 : last]),
        "batch": shape[batch],
        "batch_rows": prod(shape[batch + 1 : last]),
    }
    operands = (source_ref(context, data), source_ref(context, lengths), TensorRef(result))
    kernel = Kernel("moves.h", "reverse_sequence", (element_bytes(lengths),))
    context.call(op, kernel, params, operands, (result,), tasks=-(-rows // rows_per_task))


LOWERINGS.add(
    Lowering("REVERSE_SEQUENCE", "reverse_sequence", _refuses_choice, _lower_reverse_sequence)
)


def _axis(op: Op) -> int | None:
    return only_axis(op, 1, len(op.outputs[0].static_shape))


def _refuses_sum(op: Op, target: Target) -> str | None:
    return "the axis is not constant" if _axis(op) is None else not_copyable(op.outputs[0])


def _lower_sum(op: Op, context: Context) -> None:
    result, axis = op.outputs[0], _axis(op)
    assert axis is not None
    shape = result.static_shape
    params: dict[str, ParamValue] = {"size": shape[axis], "inner": prod(shape[axis + 1 :])}
    attrs = op.attributes(CumsumAttrs)
    flags = int(attrs.exclusive), int(attrs.reverse)
    kernel = Kernel("order.h", "running_sum", (_TYPES[result.dtype], *flags))
    operands = (source_ref(context, operand(op, 0)), TensorRef(result))
    context.call(op, kernel, params, operands, (result,), tasks=prod(shape[:axis]))


LOWERINGS.add(Lowering("CUMSUM", "running_sum", _refuses_sum, _lower_sum))


def _refuses_top(op: Op, target: Target) -> str | None:
    return "the count is not constant" if top_count(op) is None else not_copyable(op.outputs[0])


def _lower_top(op: Op, context: Context) -> None:
    data, (values, places) = operand(op, 0), _pair(op.outputs)
    columns = data.static_shape[-1]
    params: dict[str, ParamValue] = {"columns": columns, "kept": values.static_shape[-1]}
    kernel = Kernel("order.h", "top", (_TYPES[data.dtype], element_bytes(places)))
    operands = (source_ref(context, data), TensorRef(values), TensorRef(places))
    context.call(op, kernel, params, operands, (values, places), tasks=data.elements // columns)


def _pair(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    return tensors[0], tensors[1]


LOWERINGS.add(Lowering("TOPK_V2", "top", _refuses_top, _lower_top))
