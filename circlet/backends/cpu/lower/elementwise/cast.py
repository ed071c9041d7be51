"""CAST between any two numeric types, and DEQUANTIZE of half precision."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lower.views import (
    element_loops,
    row_fields,
    source_ref,
    stride_fields,
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
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.quantize import CASTABLE
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    types = {operand(op, 0).dtype, op.outputs[0].dtype}
    unknown = sorted(dtype.name for dtype in types if dtype.name not in CASTABLE)
    if unknown:
        return f"does not take {', '.join(unknown)}"
    if op.kind != "CAST" and operand(op, 0).dtype is not DType.FLOAT16:
        return "is no change of type alone"
    return not_copyable(op.outputs[0])


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    sizes = element_bytes(source), element_bytes(result)
    loops = element_loops(context, (source, result), result.static_shape)
    fields, tasks = row_fields(loops.sizes, sum(sizes))
    read, written = (stride_fields(row) for row in loops.scaled(*sizes).strides)
    params: dict[str, ParamValue] = {**fields, "source": read, "result": written}
    types = tuple(f"CAST_{tensor.dtype.name}" for tensor in (source, result))
    operands = (source_ref(context, source), TensorRef(result))
    context.call(op, Kernel("cast.h", "cast", types), params, operands, (result,), tasks=tasks)


for _kind in ("CAST", "DEQUANTIZE"):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_any",
            _refuses,
            _lower,
            strided_inputs=True,
            strided_any_rank=True,
            strided_output=True,
            overwrites=always_overwrites,
            rank=Rank.ANY_TYPE,
        )
    )
