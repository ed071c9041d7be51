"""LOCAL_RESPONSE_NORMALIZATION of rows of channels."""

from __future__ import annotations

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.local_response_norm import LocalResponseNormAttrs, neighbours
from circlet.ops.operands import operand
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 12
_MOST_LANES = 16
ROOTS = {0.5: 2, 0.75: 3, 1.0: 4}  # how many quarters a power has


def _refuses(op: Op, target: Target) -> str | None:
    attrs = op.attributes(LocalResponseNormAttrs)
    if operand(op, 0).elements == 0:
        return "a size is 0"
    if attrs.bias < 0 or attrs.alpha < 0:
        return "powers of negative numbers are not computed"
    return None


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    attrs, count = op.attributes(LocalResponseNormAttrs), source.static_shape[-1]
    rows, radius = source.elements // count, neighbours(op)
    per_task = max(1, _TASK_ELEMENTS // count)
    params: dict[str, ParamValue] = {
        "rows": rows,
        "rows_per_task": per_task,
        "count": count,
        "radius": radius,
        "bias": attrs.bias,
        "alpha": attrs.alpha,
        "beta": attrs.beta,
    }
    context.call(
        op,
        Kernel("local_response_norm.h", "local_response_norm", (ROOTS.get(attrs.beta, 0),)),
        params,
        (source_ref(context, source), TensorRef(result)),
        (result,),
        tasks=-(-rows // per_task),
        scratch_bytes=4 * (count + 2 * radius + _MOST_LANES),
    )


LOWERINGS.add(Lowering("LOCAL_RESPONSE_NORMALIZATION", "local_response_norm_f32", _refuses, _lower))
