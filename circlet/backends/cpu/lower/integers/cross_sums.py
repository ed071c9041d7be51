"""MatMulInteger over operands that a run computes, and over any zero points.

    left   [stack, rows, depth]      images of one row of `rows` pixels
    right  [stack, depth, columns]   weights of `columns` filters, those of each image its own

Matrices on the right are packed as those of BATCH_MATMUL are, or read where they lie by a few rows.
Zero points are taken off sums, as those of rows and of columns say (`cross_sums.h`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.i8mm import product_offset
from circlet.backends.cpu.lower.integers.q8 import Int8, activation_offset
from circlet.backends.cpu.lower.integers.requantisation import CROSS_SUMS, Requantisation, in_order
from circlet.backends.cpu.lower.products.product import ComputedWeights, Stack, View, ZeroPoints
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    Sizes,
    broadcast_strides,
    outer_fields,
    row_tasks,
    source_ref,
    stride_fields,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.onnx.integer_sums import MATMUL
from circlet.ops.operands import operand
from circlet.target.targets import Target

_ROW_BYTES = 8
_WIDE_BYTES = 64
_MOST_ROWS = 4
_MOST_STACK_AXES = MAX_AXES - 2
_BYTES = (DType.INT8, DType.UINT8)


class _Side(NamedTuple):
    """One operand: its lines are the rows on the left, the columns on the right.

    Attributes:
        tensor: Stored bytes.
        zeros: Their zero points, if any.
        lines: Of a matrix.
        steps: Elements between matrices along each axis of the stack, between lines, and between
            the elements of one.
        zero_steps: Those between zero points, down to lines.
    """

    tensor: Tensor
    zeros: Tensor | None
    lines: int
    steps: Sizes
    zero_steps: Sizes

    def without(self, axis: int, lines: int) -> _Side:
        """The same of so many lines, and without an axis of the stack, counted from its front."""
        steps, zero_steps = (
            (*every[:axis], *every[axis + 1 :]) for every in (self.steps, self.zero_steps)
        )
        return self._replace(lines=lines, steps=steps, zero_steps=zero_steps)


class _Pair(NamedTuple):
    """Two stacks of matrices of one depth; `op` has them in this order."""

    op: Op
    stack: Sizes
    depth: int
    left: _Side
    right: _Side


def _refuses(op: Op, target: Target) -> str | None:
    left, right = operand(op, 0), operand(op, 1)
    if left.dtype not in _BYTES or right.dtype not in _BYTES:
        return "not bytes"
    tensors = (left, right, op.outputs[0], *(zero for zero in op.inputs[2:] if zero is not None))
    if not all(tensor.has_rank for tensor in tensors):
        return "a rank is not known"
    if any(tensor.elements == 0 for tensor in tensors):
        return "a size is 0"
    stack = max(len(left.static_shape), len(right.static_shape)) - 2
    return f"{stack} stacked axes" if stack > _MOST_STACK_AXES else None


def _lower(op: Op, context: Context) -> None:
    joined = _joined(_pair(op))
    if _is_direct(joined, context):
        _call_direct(joined, context)
        return
    pair = _exchanged(joined)
    product_op, stack, depth, left, right = pair
    lanes = context.vector_bytes // 4
    source, records, scales_batch = _stored(pair, context)

    def requantise(_: Int8, width: int) -> Requantisation:
        return Requantisation(CROSS_SUMS, in_order(right.lines, width, lanes).table({}))

    bounds: dict[str, ParamValue] = {
        "scales_batch": scales_batch,
        "row_zeros": int(left.zero_steps[-1] != 0),
        "channel_zeros": int(right.zero_steps[-1] != 0),
    }
    product: Q8Product = Q8Product(
        product_op,
        source,
        View(op.outputs[0], 0, left.lines * right.lines, 0, right.lines),
        (prod(stack), 1, left.lines),
        (right.lines, 1, 1, depth),
        (0, 0),
        _no_weights,
        Q8Epilogue(requantise, 0, False, bounds, records),
        computed=ComputedWeights(
            source_ref(context, right.tensor),
            right.steps[-2],
            (0, 0),
            right.steps[-1],
            stack=Stack(stack, right.steps[:-2]),
            zeros=ZeroPoints(
                _zero_ref(right, context), right.zero_steps[:-1], right.zero_steps[-1]
            ),
        ),
    )
    call_conv_q8(product, context)


def _is_direct(pair: _Pair, context: Context) -> bool:
    """Whether a few rows meet columns that lie side by side, and fill registers of bytes."""
    many = context.vector_bytes == _WIDE_BYTES or context.target.arch == "aarch64"
    most = _MOST_ROWS if many else 1
    columns = pair.right.lines
    return pair.left.lines <= most and columns >= context.vector_bytes


def _call_direct(pair: _Pair, context: Context) -> None:
    op, stack, depth, left, right = pair
    columns, vector_bytes = right.lines, context.vector_bytes
    is_wide = left.lines == 1 and vector_bytes == _WIDE_BYTES and columns >= 2 * vector_bytes
    across = 2 if is_wide else 1
    blocks = -(-columns // (across * vector_bytes))
    params: dict[str, ParamValue] = {
        "depth": depth,
        "columns": columns,
        "blocks": blocks,
        "x_row": left.steps[-2],
        "sizes": outer_fields(stack, MAX_AXES - 1),
        "x": stride_fields((*left.steps[:-2], 0)),
        "y": stride_fields((*right.steps[:-2], 0)),
        "x_zeros": stride_fields((*left.zero_steps[:-1], 0)),
        "y_zeros": stride_fields((*right.zero_steps[:-1], 0)),
        "x_zero_row": left.zero_steps[-1],
        "y_zero_column": right.zero_steps[-1],
    }
    signs = (int(side.tensor.dtype is DType.INT8) for side in (left, right))
    flips = int(activation_offset(left.tensor, context.target) != 0)
    context.call(
        op,
        Kernel("cross_rows_q8.h", "cross_rows_q8", (left.lines, across, *signs, flips)),
        params,
        (
            source_ref(context, left.tensor),
            _zero_ref(left, context),
            source_ref(context, right.tensor),
            _zero_ref(right, context),
            TensorRef(op.outputs[0]),
        ),
        (op.outputs[0],),
        tasks=prod(stack) * blocks,
    )


def _no_weights() -> np.ndarray:
    return np.empty(0, np.int8)


def _zero_ref(side: _Side, context: Context) -> Ref:
    return NoRef() if side.zeros is None else source_ref(context, side.zeros)


def _pair(op: Op) -> _Pair:
    """The operands as they are: vectors are matrices of one row, or of one column."""
    x, y = operand(op, 0), operand(op, 1)
    *of_left, rows, depth = _matrix(x.static_shape, 0)
    *of_right, _, columns = _matrix(y.static_shape, 1)
    stack = np.broadcast_shapes(tuple(of_left), tuple(of_right))
    left = _side(x, op.input(2), (*of_left, rows), (depth, 1), len(stack))
    right = _side(y, op.input(3), (*of_right, columns), (1, columns), len(stack))
    return _Pair(op, stack, depth, left, right)


def _matrix(shape: Sizes, axis: int) -> Sizes:
    """Sizes of matrices; a vector has one line, along an axis."""
    if len(shape) > 1:
        return shape
    return (*shape[:axis], 1, *shape[axis:])


def _side(
    tensor: Tensor, zeros: Tensor | None, sizes: Sizes, steps: tuple[int, int], count: int
) -> _Side:
    """An operand of matrices and lines of `sizes`, in a product of `count` stacked axes."""
    matrix = tensor.elements // prod(sizes[:-1])
    own = [matrix * prod(sizes[axis + 1 : -1]) for axis in range(len(sizes) - 1)]
    between = broadcast_strides(tuple(own), sizes[:-1], (1,) * count)
    return _Side(tensor, zeros, sizes[-1], (*between, *steps), _zero_steps(zeros, count))


def _zero_steps(zeros: Tensor | None, count: int) -> Sizes:
    """Elements between zero points along so many stacked axes, and lines; 0 where there is one."""
    if zeros is None or zeros.elements == 1:
        return (0,) * (count + 1)
    shape = zeros.static_shape
    sizes = (*shape[:-2], prod(shape[-2:]))
    dense = tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    return broadcast_strides(dense, sizes, (1,) * (count + 1))


def _joined(pair: _Pair) -> _Pair:
    """Without axes of size 1, or along which one matrix meets rows that follow each other."""
    for axis in reversed(range(len(pair.stack))):
        size, (left, right) = pair.stack[axis], (pair.left, pair.right)
        is_last = axis == len(pair.stack) - 1
        follows = (
            is_last
            and right.steps[axis] == right.zero_steps[axis] == 0
            and left.steps[axis] == left.lines * left.steps[-2]
            and left.zero_steps[axis] == left.lines * left.zero_steps[-1]
        )
        if size == 1 or follows:
            stack = (*pair.stack[:axis], *pair.stack[axis + 1 :])
            sides = left.without(axis, left.lines * size), right.without(axis, right.lines)
            pair = _Pair(pair.op, stack, pair.depth, *sides)
    return pair


def _exchanged(pair: _Pair) -> _Pair:
    """The transposed product, where one column meets rows: those then fill registers."""
    if pair.right.lines > 1 or pair.left.lines == 1:
        return pair
    inputs = [pair.op.input(index) for index in (1, 0, 3, 2)]
    op = replace(pair.op, inputs=inputs)
    return pair._replace(op=op, left=pair.right, right=pair.left)


def _stored(pair: _Pair, context: Context) -> tuple[View, TensorRef, int]:
    """The rows on the left, their records, and the records between two images.

    Rows are copied where the top bits change, and where matrices are neither all one nor in order.
    """
    op, stack, depth, left, _ = pair
    is_one = not any(left.steps[:-2])
    own = () if is_one else stack
    sizes = (*own, left.lines)
    rows, image = prod(sizes), left.lines * depth
    in_order = tuple(image * prod(own[axis + 1 :]) for axis in range(len(own)))
    offset = product_offset(left.tensor, context.target)
    copies = offset != 0 or left.steps[len(stack) - len(own) : -2] != in_order
    records = context.temporary(op, rows * _ROW_BYTES)
    made = context.temporary(op, rows * depth) if copies else None
    source = source_ref(context, left.tensor)
    fields, tasks = row_tasks(rows, depth)
    skipped = len(stack) - len(own)
    params: dict[str, ParamValue] = {
        **fields,
        "depth": depth,
        "sizes": outer_fields(sizes, MAX_AXES - 1),
        "from": stride_fields((*left.steps[skipped:-1], 0)),
        "zeros": stride_fields((*left.zero_steps[skipped:], 0)),
        "flip": offset,
    }
    forms = left.tensor.dtype is DType.INT8, copies, offset != 0, _has_zeros(pair.right)
    context.call(
        op,
        Kernel("stored_rows.h", "stored_rows", tuple(map(int, forms))),
        params,
        (source, _zero_ref(left, context), made or NoRef(), records),
        (records.tensor, *((made.tensor,) if made else ())),
        tasks=tasks,
    )
    lines = 0 if is_one else left.lines
    if made is not None:
        return View(made.tensor, 0, lines * depth, 0, depth), records, lines
    placed = source if isinstance(source, ConstantRef) else None
    return View(left.tensor, 0, lines * depth, 0, depth, placed), records, lines


def _has_zeros(side: _Side) -> bool:
    """Whether zero points of what products see of a right side may be other than 0."""
    if side.tensor.dtype is DType.UINT8:
        return True
    return side.zeros is not None and (side.zeros.data is None or bool(side.zeros.data.any()))


LOWERINGS.add(
    Lowering(MATMUL, "mat_mul_integer_computed", _refuses, _lower, rank=Rank.COMPUTED_INT8)
)
