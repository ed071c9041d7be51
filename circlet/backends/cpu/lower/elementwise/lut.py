"""8-bit functions of one computed operand, or of two: tables of 256 or 65536 results."""

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
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    Rank,
    TensorRef,
    always_overwrites,
)
from circlet.ir import Op, Tensor
from circlet.ops import all_records, get
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.operands import operand
from circlet.target.targets import Target


def lut_loops(
    op: Op, context: Context, source: Tensor, table: ConstantRef, target: TensorRef, loops: Loops
) -> None:
    """Map `source` through a table by loops over the source and the target."""
    loops = with_inner(merged(loops), (1,))
    params, tasks = row_fields(loops.sizes, 1)
    params["source"], params["result"] = map(stride_fields, loops.strides)
    operands = (source_ref(context, source), table, target)
    context.call(op, Kernel("lut.h", "lut"), params, operands, (target.tensor,), tasks=tasks)


def _computed(op: Op) -> Tensor | None:
    """The one operand that is not a constant element, or None."""
    inputs = [operand(op, index) for index in range(len(op.inputs))]
    varying = {tensor for tensor in inputs if not tensor.is_constant or tensor.elements != 1}
    return varying.pop() if len(varying) == 1 else None


def _table(op: Op, source: Tensor) -> np.ndarray:
    """The result for each stored value of `source`, the other operands being constant."""
    parts = op.attrs.parts if isinstance(op.attrs, FusedAttrs) else (op,)
    known = {source: np.arange(256, dtype=np.uint8).view(source.dtype.numpy)}
    for part in parts:
        arrays = [
            known[tensor] if tensor in known else np.asarray(tensor.data).reshape(1)
            for tensor in part.inputs
            if tensor is not None
        ]
        with np.errstate(all="ignore"):
            known[part.outputs[0]] = get(part).evaluate(part, arrays)[0]
    return known[op.outputs[0]]


def _has_channels(tensor: Tensor) -> bool:
    return tensor.quant is not None and tensor.quant.is_per_channel


def _refuses(op: Op, target: Target) -> str | None:
    source, result = _computed(op), op.outputs[0]
    if len(op.outputs) != 1 or _has_channels(result) or (source and _has_channels(source)):
        return "gives several results, or has scales per channel"
    if source is None or {source.dtype, result.dtype} - EIGHT_BIT:
        return "takes one 8-bit operand, and constant elements beside it"
    return not_copyable(result)


def _lower(op: Op, context: Context) -> None:
    source, result = _computed(op), op.outputs[0]
    assert source is not None
    (table,) = context.packed(op, "lut", lambda: ([_table(op, source)], None)).refs
    loops = element_loops(context, (source, result), result.static_shape)
    lut_loops(op, context, source, table, TensorRef(result), loops)


for _kind in (*(record.kind for record in all_records() if record.scalar), FUSED_ELEMENTWISE):
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_lut",
            _refuses,
            _lower,
            strided_inputs=True,
            strided_output=True,
            overwrites=always_overwrites,
            rank=Rank.TABLE,
        )
    )


def _pairs(op: Op) -> np.ndarray:
    """The results for all pairs of stored values."""
    values = np.arange(256, dtype=np.uint8).view(operand(op, 0).dtype.numpy)
    return get(op).evaluate(op, [values[:, None], values[None, :]])[0]


def _refuses_pairs(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype not in EIGHT_BIT:
        return f"does not take {operand(op, 0).dtype.name}"
    return next((why for t in (*op.inputs, *op.outputs) if t and (why := not_copyable(t))), None)


def _lower_pairs(op: Op, context: Context) -> None:
    result = op.outputs[0]
    tensors = (operand(op, 0), operand(op, 1), result)
    packed = context.packed(op, "lut pairs", lambda: ([_pairs(op)], None))
    loops = element_loops(context, tensors, result.static_shape)
    params, tasks = row_fields(loops.sizes, 3)
    names = ("first", "second", "result")
    params.update({n: stride_fields(row) for n, row in zip(names, loops.strides, strict=True)})
    flags = tuple(int(row[-1] == 0) for row in loops.strides[:2])
    sources = (source_ref(context, tensor) for tensor in tensors[:2])
    operands = (*sources, TensorRef(result), *packed.refs)
    context.call(op, Kernel("lut.h", "lut_pairs", flags), params, operands, (result,), tasks=tasks)


LOWERINGS.add(
    Lowering(
        "DIV",
        "div_pairs",
        _refuses_pairs,
        _lower_pairs,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.TABLE_16,
    )
)
