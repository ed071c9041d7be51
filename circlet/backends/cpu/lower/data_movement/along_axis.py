"""Ops that work along one axis in order: REVERSE_SEQUENCE, CUMSUM, TOPK_V2."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.bounded.counts import ref_or_none
from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.printer import EXPRESSION_TYPES
from circlet.backends.cpu.lower.views import row_tasks, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    StopRef,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops.bounded import TOP_K
from circlet.ops.operands import operand
from circlet.ops.order import CumsumAttrs, only_axis, sequence_axes, top_count
from circlet.target.targets import Target


def _refuses_sequence(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _lower_reverse_sequence(op: Op, context: Context) -> None:
    data, lengths, result = operand(op, 0), operand(op, 1), op.outputs[0]
    shape = result.static_shape
    sequence, batch = sequence_axes(op, len(shape))
    last = max(sequence, batch) + 1
    rows, run = prod(shape[:last]), prod(shape[last:])
    fields, tasks = row_tasks(rows, run * element_bytes(result))
    params: dict[str, ParamValue] = {
        **fields,
        "run_bytes": run * element_bytes(result),
        "sequence": shape[sequence],
        "sequence_rows": prod(shape[sequence + 1 : last]),
        "batch": shape[batch],
        "batch_rows": prod(shape[batch + 1 : last]),
    }
    operands = (source_ref(context, data), source_ref(context, lengths), TensorRef(result))
    kernel = Kernel("gather.h", "reverse_sequence", (element_bytes(lengths),))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


LOWERINGS.add(
    Lowering("REVERSE_SEQUENCE", "reverse_sequence", _refuses_sequence, _lower_reverse_sequence)
)


def _axis(op: Op) -> int | None:
    return only_axis(op, 1, len(op.outputs[0].static_shape))


def _refuses_cumsum(op: Op, target: Target) -> str | None:
    return "the axis is not constant" if _axis(op) is None else not_copyable(op.outputs[0])


def _lower_cumsum(op: Op, context: Context) -> None:
    result, axis = op.outputs[0], _axis(op)
    assert axis is not None
    shape = result.static_shape
    params: dict[str, ParamValue] = {"size": shape[axis], "inner": prod(shape[axis + 1 :])}
    attrs = op.attributes(CumsumAttrs)
    flags = int(attrs.exclusive), int(attrs.reverse)
    kernel = Kernel("cumsum.h", "cumsum", (EXPRESSION_TYPES[result.dtype], *flags))
    operands = (source_ref(context, operand(op, 0)), TensorRef(result))
    context.call(op, kernel, params, operands, (result,), tasks=prod(shape[:axis]))


LOWERINGS.add(Lowering("CUMSUM", "cumsum", _refuses_cumsum, _lower_cumsum))


_RESERVOIR = 512  # elements besides those that are kept, so that they are seldom cut down


def _refuses_top_k(op: Op, target: Target) -> str | None:
    if op.kind != TOP_K and top_count(op) is None:
        return "the count is not constant"
    if operand(op, 0).dtype not in EXPRESSION_TYPES:
        return f"does not take {operand(op, 0).dtype.name}"
    return not_copyable(op.outputs[0])


def _lower_top_k(op: Op, context: Context) -> None:
    data, (values, indices) = operand(op, 0), _pair(op.outputs)
    columns = data.static_shape[-1]
    kept = values.static_shape[-1]
    capacity = min(columns, kept + max(kept, _RESERVOIR))
    entry = max(4, element_bytes(data)) + 4
    params: dict[str, ParamValue] = {"columns": columns, "kept": kept, "capacity": capacity}
    kernel = Kernel("top_k.h", "top_k", (EXPRESSION_TYPES[data.dtype], element_bytes(indices)))
    counts = [ref_or_none(context, tensor) for tensor in op.inputs[1:]] if op.kind == TOP_K else []
    counts = counts or [NoRef(), NoRef()]
    results = TensorRef(values), TensorRef(indices)
    operands = (source_ref(context, data), *results, StopRef(), *counts)
    context.call(
        op,
        kernel,
        params,
        operands,
        (values, indices),
        tasks=data.elements // columns,
        scratch_bytes=(capacity + kept) * entry,
    )


def _pair(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    return tensors[0], tensors[1]


for _kind in ("TOPK_V2", TOP_K):
    LOWERINGS.add(Lowering(_kind, "top_k", _refuses_top_k, _lower_top_k))
