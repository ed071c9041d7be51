"""Chains of element-wise ops as one kernel: each part is a step over earlier ones."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.elementwise_limits import MOST_OPERANDS
from circlet.backends.cpu.lower.copy import element_bytes
from circlet.backends.cpu.lower.elementwise.body import Step
from circlet.backends.cpu.lower.elementwise.elementwise import lower_steps, lowered_as_sum
from circlet.backends.cpu.lower.elementwise.float_forms import in_floats
from circlet.backends.cpu.lower.elementwise.row_program import RowOperand, RowProgram
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    Loops,
    broadcast_strides,
    layout_of,
    merged,
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
    Rank,
    TensorRef,
    always_overwrites,
)
from circlet.ir import Op, Tensor
from circlet.ops.fused import FUSED_ELEMENTWISE, FUSED_ROWS, FusedAttrs, FusedRowsAttrs
from circlet.ops.scalars import element_scalar
from circlet.target.targets import Target

_MOST_LANES = 16


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what this lowering takes."""


def _lower(op: Op, context: Context) -> None:
    if lowered_as_sum(op, context):
        return
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    numbers: dict[Tensor, int] = {tensor: number for number, tensor in enumerate(inputs)}
    steps: list[Step] = []
    stored: list[Tensor] = []
    for part in op.attributes(FusedAttrs).parts:
        scalar, result = element_scalar(part), part.outputs[0]
        assert scalar is not None
        if result in op.outputs:
            stored.append(result)
        operands = tuple(numbers[tensor] for tensor in part.inputs if tensor is not None)
        scalar = in_floats(part, scalar)
        steps.append(Step(scalar, operands, result.dtype if result in op.outputs else None))
        numbers[result] = len(numbers)
    lower_steps(op, context, inputs, steps, stored)


def _roles(op: Op) -> tuple[list[RowOperand], FusedRowsAttrs]:
    """The inputs of rows, and the attributes."""
    attrs = op.attributes(FusedRowsAttrs)
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    inner = attrs.shape[attrs.kept :]
    return [RowOperand(t, t.static_shape[-len(inner) :] != inner) for t in inputs], attrs


def _lower_rows(op: Op, context: Context) -> None:
    inputs, attrs = _roles(op)
    program = RowProgram(inputs, op.outputs, attrs.parts, attrs.shape)
    tensors = [*(operand.tensor for operand in inputs), *op.outputs]
    outer, count = attrs.shape[: attrs.kept], prod(attrs.shape[attrs.kept :])
    read = [_strides_read(context, operand.tensor, attrs) for operand in inputs]
    written = [_strides_written(context, tensor, attrs) for tensor in op.outputs]
    loops = merged(Loops(outer, (*read, *written)))
    sizes = [element_bytes(tensor) for tensor in tensors]
    scaled = loops.scaled(*sizes)
    fields, tasks = row_tasks(prod(outer), count * sum(sizes))
    params: dict[str, ParamValue] = {
        **fields,
        "inner": count,
        "sizes": outer_fields(loops.sizes, MAX_AXES - 1),
        "strides": [s for row in scaled.strides for s in stride_fields((*row, 0))]
        + [0] * (MAX_AXES * (MOST_OPERANDS - len(tensors))),
        **program.params(),
    }
    kernel = Kernel("fused_rows.h", "fused_rows", program.arguments, program.prelude)
    sources = (source_ref(context, operand.tensor) for operand in inputs)
    context.call(
        op,
        kernel,
        params,
        (*sources, *(TensorRef(tensor) for tensor in op.outputs)),
        op.outputs,
        tasks=tasks,
        scratch_bytes=len(program.kept) * 4 * (count + _MOST_LANES),
    )


def _strides_read(context: Context, tensor: Tensor, attrs: FusedRowsAttrs) -> tuple[int, ...]:
    """Strides of an operand along the axes that count rows."""
    strides = strides_of(tensor, layout_of(context, tensor))
    return broadcast_strides(strides, tensor.static_shape, attrs.shape)[: attrs.kept]


def _strides_written(context: Context, tensor: Tensor, attrs: FusedRowsAttrs) -> tuple[int, ...]:
    """Strides of a result along the axes that count rows; one of rows may lack the others."""
    shape, kept = attrs.shape, attrs.kept
    if tensor.static_shape in (shape, (*shape[:kept], *(1,) * (len(shape) - kept))):
        return _strides_read(context, tensor, attrs)
    return tuple(prod(shape[axis + 1 : kept]) for axis in range(kept))


def _refuses_strides(op: Op, target: Target) -> str | None:
    _, attrs = _roles(op)
    return None if attrs.kept == len(attrs.shape) - 1 else "rows of several axes have to be dense"


def _overwrites_rows(op: Op, source: Tensor, result: Tensor) -> bool:
    """Whether no pass reads after a store: the only result is stored in the last one."""
    attrs = op.attributes(FusedRowsAttrs)
    read = {tensor for part in attrs.parts for tensor in part.inputs}
    made = [tensor for part in attrs.parts for tensor in part.outputs]
    return op.outputs == [result] and all(tensor in read or tensor is result for tensor in made)


LOWERINGS.add(
    Lowering(
        FUSED_ELEMENTWISE,
        "fused_elementwise",
        _takes,
        _lower,
        strided_inputs=True,
        strided_any_rank=True,
        strided_output=True,
        overwrites=always_overwrites,
    )
)
LOWERINGS.add(
    Lowering(
        FUSED_ROWS,
        "fused_rows",
        _refuses_strides,
        _lower_rows,
        strided_inputs=True,
        strided_any_rank=True,
        strided_output=True,
        overwrites=_overwrites_rows,
    )
)
LOWERINGS.add(
    Lowering(
        FUSED_ROWS,
        "fused_dense_rows",
        _takes,
        _lower_rows,
        overwrites=_overwrites_rows,
        rank=Rank.DENSE,
    )
)
