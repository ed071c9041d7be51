"""What runs down columns: softmax, its logarithm and local response norms along other axes."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu.lower.reductions.local_response_norm import ROOTS
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
from circlet.ir import Op
from circlet.ops.fused import FUSED_COLUMNS, parts_of
from circlet.ops.layout import permutation
from circlet.ops.local_response_norm import LocalResponseNormAttrs, neighbours
from circlet.ops.operands import operand
from circlet.ops.softmax import SoftmaxAttrs
from circlet.target.targets import Target

_TASK_ELEMENTS = 1 << 12
_SOFTMAXES = ("SOFTMAX", "LOG_SOFTMAX")
_VECTORS = 4  # COLUMN_VECTORS of columns.h


def _refuses_softmax(op: Op, target: Target) -> str | None:
    kind = parts_of(op)[1].kind
    return None if kind in _SOFTMAXES else f"{kind} is another operator"


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what one of these lowerings takes."""


def _call(op: Op, context: Context, kernel: Kernel, params: dict[str, ParamValue]) -> None:
    """A kernel over blocks of columns."""
    source, result = operand(op, 0), op.outputs[0]
    order, shape = permutation(parts_of(op)[0]), source.static_shape
    assert order is not None
    axis = order[-1]
    count, columns = shape[axis], prod(shape[axis + 1 :])
    width = _VECTORS * context.vector_bytes // 4
    plane_blocks = -(-columns // width)
    blocks = prod(shape[:axis]) * plane_blocks
    per_task = max(1, _TASK_ELEMENTS // (count * width))
    fields: dict[str, ParamValue] = {
        "in_blocks": blocks,
        "in_blocks_per_task": per_task,
        "in_plane_blocks": plane_blocks,
        "in_columns": columns,
        "in_count": count,
    }
    operands = (source_ref(context, source), TensorRef(result))
    context.call(op, kernel, fields | params, operands, (result,), tasks=-(-blocks // per_task))


def _lower_softmax(op: Op, context: Context) -> None:
    own = parts_of(op)[1]
    is_log = own.kind == "LOG_SOFTMAX"
    beta = 1.0 if is_log else float(np.float32(own.attributes(SoftmaxAttrs).beta))
    kernel = Kernel("softmax_columns.h", "softmax_columns", (int(is_log),))
    _call(op, context, kernel, {"beta": beta})


def _lower_norm(op: Op, context: Context) -> None:
    own = parts_of(op)[1]
    attrs = own.attributes(LocalResponseNormAttrs)
    quarters = ROOTS.get(attrs.beta, 0)
    params: dict[str, ParamValue] = {
        "radius": neighbours(own),
        "bias": attrs.bias,
        "alpha": attrs.alpha,
        "beta": attrs.beta,
    }
    kernel = Kernel("local_response_norm.h", "local_response_columns", (quarters,))
    _call(op, context, kernel, params)


LOWERINGS.add(Lowering(FUSED_COLUMNS, "softmax_columns", _refuses_softmax, _lower_softmax))
LOWERINGS.add(
    Lowering(FUSED_COLUMNS, "local_response_columns", _takes, _lower_norm, rank=Rank.SPLIT)
)
