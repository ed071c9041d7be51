"""Operators that move elements: sizes, slices, joins, paddings, transpositions."""

from __future__ import annotations

from circlet.formats.nnapi.writing import NotWrittenError, Written, writes
from circlet.ir import DType
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs


@writes("RESHAPE")
def _reshape(op: Written) -> None:
    sizes = op.op.input(1)
    if sizes is None:
        op.operation("RESHAPE", [op[0], op.wholes(op.attrs(ReshapeAttrs).new_shape)])
    else:
        op.operation("RESHAPE", [op[0], sizes])


@writes("SQUEEZE")
def _squeeze(op: Written) -> None:
    axes = op.attrs(SqueezeAttrs).squeeze_dims
    if not axes:
        axes = tuple(axis for axis, size in enumerate(op[0].shape) if size == 1)
    op.operation("SQUEEZE", [op[0], op.wholes(axes)] if axes else [op[0]])


@writes("EXPAND_DIMS")
def _expand_dims(op: Written) -> None:
    op.operation("EXPAND_DIMS", [op[0], op.number(op[1])])


@writes("TRANSPOSE", "SLICE", "TILE", "PAD")
def _with_lists(op: Written) -> None:
    op.operation(op.op.kind, [op[index] for index in range(len(op.op.inputs))])


@writes("PADV2")
def _pad_with(op: Written) -> None:
    value = op.constant(op[2]).reshape(-1)
    is_float = op[0].dtype is DType.FLOAT32
    number = op.real(float(value[0])) if is_float else op.whole(int(value[0]))
    op.operation("PAD_V2", [op[0], op[1], number])


@writes("STRIDED_SLICE")
def _strided_slice(op: Written) -> None:
    attrs = op.attrs(StridedSliceAttrs)
    if attrs.ellipsis_mask or attrs.new_axis_mask or attrs.offset:
        raise NotWrittenError("the operation has no ellipsis, new axes or offsets")
    masks = (attrs.begin_mask, attrs.end_mask, attrs.shrink_axis_mask)
    op.operation("STRIDED_SLICE", [*(op[i] for i in range(4)), *map(op.whole, masks)])


@writes("CONCATENATION")
def _concatenation(op: Written) -> None:
    attrs = op.attrs(ConcatenationAttrs)
    if attrs.activation != "NONE":
        raise NotWrittenError("the operation applies no activation")
    parts = [op[index] for index in range(len(op.op.inputs))]
    axis = attrs.axis + (len(parts[0].shape) if attrs.axis < 0 else 0)
    op.operation("CONCATENATION", [*parts, op.whole(axis)])


@writes("SPLIT")
def _split(op: Written) -> None:
    count = op.attrs(SplitAttrs).num_splits
    op.operation("SPLIT", [op[1], op.number(op[0]), op.whole(count)])


@writes("SPLIT_V")
def _split_unevenly(op: Written) -> None:
    count = op.attrs(SplitAttrs).num_splits
    op.operation("SPLIT_V_EX", [op[0], op[1], op.number(op[2]), op.whole(count)])


@writes("PACK")
def _pack(op: Written) -> None:
    attrs = op.attrs(PackAttrs)
    parts = [op[index] for index in range(len(op.op.inputs))]
    op.operation("PACK_EX", [*parts, op.whole(len(parts)), op.whole(attrs.axis)])


@writes("UNPACK")
def _unpack(op: Written) -> None:
    attrs = op.attrs(UnpackAttrs)
    op.operation("UNPACK_EX", [op[0], op.whole(attrs.num), op.whole(attrs.axis)])


@writes("GATHER")
def _gather(op: Written) -> None:
    attrs = op.attrs(GatherAttrs)
    if attrs.batch_dims:
        raise NotWrittenError("the operation shares no leading axes")
    op.operation("GATHER", [op[0], op.whole(attrs.axis), op[1]])


@writes("EMBEDDING_LOOKUP", "HASHTABLE_LOOKUP")
def _lookup(op: Written) -> None:
    op.operation(op.op.kind, [op[index] for index in range(len(op.op.inputs))])
