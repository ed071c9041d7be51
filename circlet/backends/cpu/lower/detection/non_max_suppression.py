"""NON_MAX_SUPPRESSION_V4 and _V5 as one kernel call."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.operands import known_ints, operand
from circlet.target.targets import Target

# What non_max_suppression.h takes of the scratch memory for each box, and once more.
_BOX_BYTES, _MORE_BYTES = 12, 1024


def _refuses(op: Op, target: Target) -> str | None:
    if known_ints(op.input(2)) is None:
        return "how many boxes may come out is not constant"
    tensors = [operand(op, 0), *op.outputs]
    return next((reason for t in tensors if (reason := not_copyable(t))), None)


def _lower(op: Op, context: Context) -> None:
    boxes, is_soft = operand(op, 0).static_shape[0], op.kind == "NON_MAX_SUPPRESSION_V5"
    sources: list[Ref] = [source_ref(context, operand(op, i)) for i in (0, 1, 3, 4)]
    sources.append(source_ref(context, operand(op, 5)) if is_soft else NoRef())
    results: list[Ref] = [TensorRef(tensor) for tensor in op.outputs]
    if not is_soft:
        results.insert(1, NoRef())
    params: dict[str, ParamValue] = {"boxes": boxes, "most": op.outputs[0].static_shape[0]}
    kernel = Kernel("non_max_suppression.h", "non_max_suppression")
    operands = [*sources, *results, StopRef()]
    scratch = boxes * _BOX_BYTES + _MORE_BYTES
    context.call(op, kernel, params, operands, op.outputs, scratch_bytes=scratch)


for _kind in ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"):
    LOWERINGS.add(Lowering(_kind, "non_max_suppression", _refuses, _lower))
