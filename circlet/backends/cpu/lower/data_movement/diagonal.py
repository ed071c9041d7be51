"""Diagonals as strided copies."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.copy import copy_loops, not_copyable
from circlet.backends.cpu.lower.data_movement.slices import copy_from, strides_in
from circlet.backends.cpu.lower.views import Loops, source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.ir import Op, Tensor
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _write_diagonal(op: Op, context: Context, diagonal: Tensor) -> None:
    result = op.outputs[0]
    strides = strides_in(context, result)
    along = (*strides[:-2], strides[-2] + strides[-1])
    loops = Loops(diagonal.static_shape, (strides_in(context, diagonal), along))
    copy_from(op, context, diagonal, TensorRef(result), loops)


def _lower_diagonal(op: Op, context: Context) -> None:
    result = op.outputs[0]
    strides = strides_in(context, result)
    loops = Loops(result.static_shape, ((0,) * len(strides), strides))
    copy_loops(op, context, context.constant(np.zeros(8, np.uint8)), TensorRef(result), loops)
    _write_diagonal(op, context, operand(op, 0))


def _lower_set_diagonal(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    strides = strides_in(context, source), strides_in(context, result)
    loops = Loops(result.static_shape, strides)
    copy_loops(op, context, source_ref(context, source), TensorRef(result), loops)
    _write_diagonal(op, context, operand(op, 1))


for _kind, _lower in (("MATRIX_DIAG", _lower_diagonal), ("MATRIX_SET_DIAG", _lower_set_diagonal)):
    LOWERINGS.add(
        Lowering(_kind, _kind.lower(), _refuses, _lower, strided_inputs=True, strided_output=True)
    )
