"""Operands of float BATCH_MATMUL as the kernels want them: rows on the left, packed columns."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import copy_loops
from circlet.backends.cpu.lower.floats.epilogue import FloatEpilogue, FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import float_weights
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.products.product import ComputedWeights, of_rows
from circlet.backends.cpu.lower.views import Loops, source_ref
from circlet.backends.cpu.lowering import ConstantRef, Context, TensorRef
from circlet.ir import Op
from circlet.ops.batch_matmul import adjoint
from circlet.ops.operands import operand


def row_major(op: Op, context: Context) -> TensorRef | ConstantRef:
    """The left operand with the elements of a row side by side; a step transposes it if need be."""
    left = operand(op, 0)
    source = source_ref(context, left)
    *stack, depth, rows = left.static_shape
    if not adjoint(op)[0] or 1 in (depth, rows):
        return source
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


def columns_of(op: Op, values: np.ndarray) -> np.ndarray:
    """The columns of the one matrix on the right, which has these values, as rows of weights."""
    flat = values.reshape(values.shape[-2:])
    return flat if adjoint(op)[1] else flat.T


def one_matrix(op: Op, context: Context) -> FloatProduct:
    """The product of all rows on the left with the one matrix on the right."""
    right, rows = operand(op, 1), row_major(op, context)
    assert isinstance(rows, TensorRef)
    values = columns_of(op, float_weights(right))
    columns, depth = values.shape
    product = of_rows(
        op, operand(op, 0), op.outputs[0], (columns, depth), lambda: values, FloatEpilogue()
    )
    product = product._replace(source=product.source._replace(tensor=rows.tensor))
    return product if right.is_constant else product._replace(computed=_computed(op, context))


def _computed(op: Op, context: Context) -> ComputedWeights:
    """The columns of the one matrix on the right as filters."""
    source, columns_last = source_ref(context, operand(op, 1)), operand(op, 1).static_shape[-1]
    if adjoint(op)[1]:
        return ComputedWeights(source, columns_last, (0, 0))
    return ComputedWeights(source, 1, (0, 0), channel=columns_last)
