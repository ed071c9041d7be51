"""BATCH_MATMUL of float rows with constant matrices of 8 bits."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu.lower.products.matmul import product_sizes, stack_strides
from circlet.backends.cpu.lower.views import MAX_AXES, outer_fields, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.batch_matmul import BatchMatMulAttrs, adjoint, column_scales, is_hybrid
from circlet.ops.operands import operand
from circlet.target.targets import Target

_LINE = 64


def _refuses(op: Op, target: Target) -> str | None:
    right = operand(op, 1)
    if not is_hybrid(op) or right.dtype is not DType.INT8 or right.data is None:
        return "not float rows over constant int8"
    if adjoint(op)[0]:
        return "the left operand is transposed"
    if len(op.outputs[0].static_shape) - 2 > MAX_AXES - 1:
        return "too many stacked axes"
    return "a size is 0" if 0 in (op.outputs[0].elements, right.elements) else None


def _packed(op: Op) -> tuple[tuple[np.ndarray, ...], None]:
    """Columns one after the other, their scales, and their sums."""
    stored = np.asarray(operand(op, 1).data, np.int8)
    columns = np.ascontiguousarray(stored if adjoint(op)[1] else stored.swapaxes(-1, -2))
    scales = np.broadcast_to(column_scales(op), columns.shape[-2]).astype(np.float32)
    return (columns, scales, columns.sum(axis=-1, dtype=np.int32)), None


def _lower(op: Op, context: Context) -> None:
    rows, depth, columns = product_sizes(op)
    result, stack = op.outputs[0], op.outputs[0].static_shape[:-2]
    packed = context.packed(op, "hybrid columns", lambda: _packed(op))
    strides = [[0] * MAX_AXES + stack_strides(op, index) for index in (0, 1)]
    params: dict[str, ParamValue] = {
        "rows": rows,
        "depth": depth,
        "columns": columns,
        "sizes": outer_fields(stack, MAX_AXES - 1),
        "x": strides[0][-MAX_AXES:],
        "y": strides[1][-MAX_AXES:],
    }
    attrs = op.attributes(BatchMatMulAttrs)
    kernel = Kernel("matmul_hybrid.h", "matmul_hybrid", (int(attrs.asymmetric_quantize_inputs),))
    operands = (source_ref(context, operand(op, 0)), *packed.refs, TensorRef(result))
    tasks = prod(stack) * rows
    scratch = -(-depth // _LINE) * _LINE + _LINE
    context.call(op, kernel, params, operands, (result,), tasks=tasks, scratch_bytes=scratch)


LOWERINGS.add(Lowering("BATCH_MATMUL", "matmul_hybrid", _refuses, _lower, rank=Rank.HYBRID))
