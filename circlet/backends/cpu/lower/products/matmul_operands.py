"""Operands of float BATCH_MATMUL as the kernels want them: rows on the left, packed columns."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.copy import copy_loops
from circlet.backends.cpu.lower.floats.computed_weights import ComputedWeights
from circlet.backends.cpu.lower.floats.float_matrix import float_weights
from circlet.backends.cpu.lower.floats.matrix import Matrix, View
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.views import Loops, source_ref
from circlet.backends.cpu.lowering import ConstantRef, Context, TensorRef
from circlet.ir import Op
from circlet.ops.batch_matmul import adjoint
from circlet.ops.operands import operand


def row_major(op: Op, context: Context) -> TensorRef | ConstantRef:
    """The left operand with the elements of a row side by side; a step transposes it if need be."""
    left = operand(op, 0)
    source = source_ref(context, left)
    if not adjoint(op)[0]:
        return source
    *stack, depth, rows = left.static_shape
    transposed = context.temporary(op, left.elements * FLOAT_BYTES)
    plane = rows * depth
    loops = Loops((prod(stack), rows, depth), ((plane, 1, rows), (plane, depth, 1)))
    copy_loops(op, context, source, transposed, loops, FLOAT_BYTES)
    return transposed


def shared_axes(op: Op) -> int:
    """Innermost axes of the stack along which one matrix on the right meets all on the left."""
    stack = op.outputs[0].static_shape[:-2]
    left, right = (
        (1,) * (len(stack) + 2 - len(shape)) + shape[:-2]
        for shape in (operand(op, index).static_shape for index in (0, 1))
    )
    count = 0
    for size, of_left, of_right in zip(*(reversed(s) for s in (stack, left, right)), strict=True):
        if of_right != 1 or of_left != size:
            break
        count += 1
    return count


def _columns_of(op: Op, context: Context) -> ComputedWeights:
    """The columns of the one matrix on the right as filters."""
    right = operand(op, 1)
    columns_last = right.static_shape[-1]
    source = source_ref(context, right)
    if adjoint(op)[1]:
        return ComputedWeights(source, columns_last, (0, 0))
    return ComputedWeights(source, 1, (0, 0), channel=columns_last)


def one_matrix(op: Op, context: Context, depth: int, columns: int) -> Matrix:
    """The product of all rows on the left with the one matrix on the right."""
    left, right, rows = operand(op, 0), operand(op, 1), row_major(op, context)
    assert isinstance(rows, TensorRef)
    stored = float_weights(right).reshape(right.static_shape[-2:])
    weights = stored if adjoint(op)[1] else stored.T
    return Matrix(
        source=View(rows.tensor, 0, 0, 0, depth),
        result=View(op.outputs[0], 0, 0, 0, columns),
        sizes=(1, 1, left.elements // depth),
        weights=weights.reshape(columns, 1, 1, depth),
        bias=None,
        taps=(0, 0),
        computed=None if right.is_constant else _columns_of(op, context),
    )
