"""BATCH_MATMUL of floats with one column: rows are read where they lie, once, along their sums.

The column, on the left, is the single row of a product whose right operand is the matrix, stored
transposed; results lie as they do otherwise.
"""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.epilogue import clamp_params
from circlet.backends.cpu.lower.floats.tiles import lanes_of, registers_of, sums_over_lanes
from circlet.backends.cpu.lower.products.matmul import matrix_params, product_sizes
from circlet.backends.cpu.lower.products.matmul import refuses_sizes as matmul_refuses
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    Rank,
    StopRef,
    TensorRef,
    vector_bytes,
)
from circlet.ir import DType, Op
from circlet.ops.batch_matmul import BatchMatMulAttrs, adjoint
from circlet.ops.operands import operand
from circlet.target.targets import Target

_VECTORS = 8  # of results, in a task's block


def _refuses(op: Op, target: Target) -> str | None:
    tensors = (operand(op, 0), operand(op, 1), op.outputs[0])
    if {tensor.dtype for tensor in tensors} != {DType.FLOAT32}:
        return "not float32"
    if reason := matmul_refuses(op, target):
        return reason
    if any(tensor.is_constant for tensor in tensors):
        return "an operand is constant"
    rows, depth, columns = product_sizes(op)
    if columns != 1 or adjoint(op)[0]:
        return "several columns, or the left operand is transposed"
    width = vector_bytes(target)
    if not sums_over_lanes(1, depth, rows, registers_of(target, width), lanes_of(width)):
        return "few rows, or short ones"
    return None


def _lower(op: Op, context: Context) -> None:
    turned = BatchMatMulAttrs(adj_x=not adjoint(op)[1], adj_y=True)
    matrix, column = operand(op, 0), operand(op, 1)
    product = Op("BATCH_MATMUL", [column, matrix], op.outputs, turned, op.origin)
    params, tasks = matrix_params(product, _VECTORS * lanes_of(context.vector_bytes))
    refs = source_ref(context, column), source_ref(context, matrix)
    context.call(
        op,
        Kernel("matmul_f32.h", "matmul_f32", (1, _VECTORS, "MATMUL_DOTS")),
        params | {"task_blocks": 1} | clamp_params("NONE"),
        (*refs, TensorRef(op.outputs[0]), StopRef(), NoRef()),
        op.outputs,
        tasks=tasks,
    )


LOWERINGS.add(Lowering("BATCH_MATMUL", "matmul_f32_column", _refuses, _lower, rank=Rank.ONE_COLUMN))
