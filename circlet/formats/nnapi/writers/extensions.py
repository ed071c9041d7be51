"""Operators that ONE's extensions have and NNAPI 1.2 has not."""

from __future__ import annotations

from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.writing import NotWrittenError, Written, writes
from circlet.ir import DType
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.order import OneHotAttrs


@writes("BATCH_MATMUL")
def _batch_matmul(op: Written) -> None:
    attrs = op.attrs(BatchMatMulAttrs)
    if op[0].dtype is not op[1].dtype:
        raise NotWrittenError(f"it takes {op[0].dtype.name} and {op[1].dtype.name}")
    flags = [op.flag(attrs.adj_x), op.flag(attrs.adj_y)]
    op.operation("BATCH_MATMUL_EX", [op[0], op[1], *flags])


@writes("ONE_HOT")
def _one_hot(op: Written) -> None:
    axis = op.whole(op.attrs(OneHotAttrs).axis)
    op.operation("ONE_HOT_EX", [op[0], op.number(op[1]), op[2], op[3], axis])


@writes("REVERSE_V2")
def _reverse(op: Written) -> None:
    op.operation("REVERSE_EX", [op[0], op[1]])


@writes("BROADCAST_TO")
def _broadcast(op: Written) -> None:
    op.operation("BROADCAST_TO_EX", [op[0], op[1]])


@writes("FILL")
def _fill(op: Written) -> None:
    op.operation("FILL_EX", [op[0], op[1]])


@writes("SHAPE")
def _shape(op: Written) -> None:
    op.operation("SHAPE_EX", [op[0]])


@writes("RANGE")
def _range(op: Written) -> None:
    if op.op.outputs[0].dtype is DType.INT64:
        raise NotWrittenError(f"{OperandCode.TENSOR_INT32.name} is its widest type")
    op.operation("RANGE_EX", [op[0], op[1], op[2]])
