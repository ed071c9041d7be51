"""BATCH_MATMUL over int8: matrices on the right are packed, and met as convolutions meet weights.

    left   [stack, rows, depth]      images of one row of `rows` pixels
    right  [stack, depth, columns]   weights of `columns` filters, those of each image its own

A constant matrix on the right is packed at compile time. Where there is one column, the operands
change places: one row then meets as many columns as there were rows, and fills registers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import copy_loops
from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    fold_zero_points,
    output_bounds,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import (
    Requantisation,
    fixed_point,
    interleaved,
    single_precision,
)
from circlet.backends.cpu.lower.products.matmul import (
    MOST_STACK_AXES,
    product_sizes,
    refuses_sizes,
    stack_strides,
)
from circlet.backends.cpu.lower.products.matmul_operands import columns_of, shared_axes
from circlet.backends.cpu.lower.products.product import ComputedWeights, Stack, View, of_rows
from circlet.backends.cpu.lower.views import Loops, source_ref
from circlet.backends.cpu.lowering import LOWERINGS, ConstantRef, Context, Lowering, Rank
from circlet.ir import DType, Op, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs, adjoint
from circlet.ops.operands import operand
from circlet.ops.requantization import rounds_to_even
from circlet.target.targets import Target

_MOST_PRODUCT = 255 * 255


def _refuses(op: Op, target: Target) -> str | None:
    if {operand(op, 0).dtype, operand(op, 1).dtype} != {DType.INT8}:
        return "not int8"
    return refuses_sizes(op, target)


def _lower(op: Op, context: Context) -> None:
    left, right = operand(op, 0), operand(op, 1)
    is_one = prod(right.static_shape[:-2]) == 1 and not left.is_constant
    if is_one and right.is_constant:
        call_conv_q8(_with_constant(op, context), context)
        return
    call_conv_q8(_with_computed(_exchanged(op), context), context)


def _exchanged(op: Op) -> Op:
    """The product with operands exchanged, whose result lies as that of `op`, if that pays."""
    rows, _, columns = product_sizes(op)
    if columns > 1 or rows == 1 or shared_axes(op):
        return op
    left_transposed, right_transposed = adjoint(op)
    attrs = BatchMatMulAttrs(not right_transposed, not left_transposed)
    return replace(op, inputs=[op.inputs[1], op.inputs[0]], attrs=attrs)


def _epilogue(op: Op, context: Context) -> Q8Epilogue:
    """Requantisation of the sums of constant columns, or of any."""
    _, depth, columns = product_sizes(op)
    lanes, zero = context.vector_bytes // 4, weights_zero(op)
    offset = product_offset(operand(op, 0), context.target)

    def requantise(weights: Int8, width: int) -> Requantisation:
        order = interleaved(columns, width, lanes)
        if weights.size:
            folded = fold_zero_points(op, weights, zero, offset)
            return integer_requantisation(op, folded, order, context.target)
        zeros = np.zeros(columns, np.int64)
        scale = single_precision if rounds_to_even(op) else fixed_point
        return scale(op, zeros, zeros + depth * _MOST_PRODUCT, order)

    return Q8Epilogue(requantise, zero, offset != 0, output_bounds(op))


def _with_constant(op: Op, context: Context) -> Q8Product:
    """All rows on the left times one constant matrix."""
    _, depth, columns = product_sizes(op)
    values = columns_of(op, np.asarray(operand(op, 1).data))
    source, epilogue = _left(op, context, 0), _epilogue(op, context)
    product = of_rows(op, operand(op, 0), op.outputs[0], (columns, depth), lambda: values, epilogue)
    return product._replace(source=source)


def _with_computed(op: Op, context: Context) -> Q8Product:
    """Matrices on the left times matrices that are packed as the network runs."""
    rows, depth, columns = product_sizes(op)
    shared, stack = shared_axes(op), op.outputs[0].static_shape[:-2]
    outer = stack[: len(stack) - shared]
    rows *= prod(stack[len(outer) :])
    strides = stack_strides(op, 1)[MOST_STACK_AXES - len(stack) :][: len(outer)]
    right = source_ref(context, operand(op, 1))
    steps = (depth, 1) if adjoint(op)[1] else (1, columns)
    return Q8Product(
        op,
        _left(op, context, rows * depth),
        View(op.outputs[0], 0, rows * columns, 0, columns),
        (prod(outer), 1, rows),
        (columns, 1, 1, depth),
        (0, 0),
        _no_weights,
        _epilogue(op, context),
        computed=ComputedWeights(
            right, steps[0], (0, 0), steps[1], stack=Stack(outer, tuple(strides))
        ),
    )


def _no_weights() -> np.ndarray:
    return np.empty(0, np.int8)


def _left(op: Op, context: Context, image: int) -> View:
    """The left operand, row by row, for each matrix of the result; a copy where it lies otherwise.

    Args:
        op: The product.
        context: The plan.
        image: Elements of the rows that one matrix on the right meets.
    """
    left, (rows, depth, _) = operand(op, 0), product_sizes(op)
    stack, own = op.outputs[0].static_shape[:-2], left.static_shape[:-2]
    in_rows = not adjoint(op)[0] or 1 in (rows, depth)
    if in_rows and prod(own) in (1, prod(stack)):
        batch = image if prod(own) == prod(stack) else 0
        return _view(left, source_ref(context, left), batch, depth)
    matrix = (depth, 1) if not adjoint(op)[0] else (1, rows)
    count = len(stack)
    strides = (*stack_strides(op, 0)[MOST_STACK_AXES - count : MOST_STACK_AXES], *matrix)
    sizes = (*stack, rows, depth)
    dense = tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    copy = context.temporary(op, prod(sizes))
    copy_loops(op, context, source_ref(context, left), copy, Loops(sizes, (strides, dense)), 1)
    return View(copy.tensor, 0, image, 0, depth)


def _view(left: Tensor, source: object, batch: int, depth: int) -> View:
    """The left operand where it lies."""
    placed = source if isinstance(source, ConstantRef) else None
    return View(left, 0, batch, 0, depth, placed)


LOWERINGS.add(Lowering("BATCH_MATMUL", "matmul_q8", _refuses, _lower, rank=Rank.INT8))
