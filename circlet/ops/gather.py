"""Ops that read where indices point: GATHER, GATHER_ND, EMBEDDING_LOOKUP.

Indices that are computed at run time and point outside are taken to the nearest element; LiteRT
stops there. Constant indices must lie inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    known_ints,
    operand,
    present,
    sizes_agree,
    when_ranked,
)
from circlet.ops.split import from_front
from circlet.words import counted


@dataclass(frozen=True)
class GatherAttrs:
    """The axis to pick from, and how many leading axes indices and data share."""

    axis: int = 0
    batch_dims: int = 0


def gather_axes(op: Op) -> tuple[int, int]:
    """(axis, batch_dims) of a GATHER, counted from the front."""
    attrs = op.attributes(GatherAttrs)
    rank, index_rank = len(operand(op, 0).shape), len(operand(op, 1).shape)
    return from_front(attrs.axis, rank), from_front(attrs.batch_dims, index_rank)


def _infer_gather(op: Op) -> list[TensorType]:
    data, indices = operand(op, 0), operand(op, 1)
    axis, batch = gather_axes(op)
    shape = (*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    return [TensorType(data.dtype, shape)]


def _gather_axes_exist(op: Op) -> bool:
    data, indices = operand(op, 0).shape, operand(op, 1).shape
    axis, batch = gather_axes(op)
    if not 0 <= batch <= axis < len(data) or batch > len(indices):
        return False
    return sizes_agree(data[:batch], indices[:batch])


def _indices_inside(op: Op) -> bool:
    indices, size = known_ints(op.input(1)), operand(op, 0).shape[gather_axes(op)[0]]
    if indices is None or size is None:
        return True
    return size > 0 and all(0 <= index < size for index in indices)


def _evaluate_gather(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, indices = present(inputs[0]), present(inputs[1])
    attrs = op.attributes(GatherAttrs)
    axis, batch = from_front(attrs.axis, data.ndim), from_front(attrs.batch_dims, indices.ndim)
    fits = 0 <= batch <= axis < data.ndim and batch <= indices.ndim
    if not fits or data.shape[:batch] != indices.shape[:batch]:
        why = f"axis {axis} and {batch} batch axes, data {data.shape}, indices {indices.shape}"
        raise GraphError("GATHER has no such axes", where=op.name, why=why)
    places = _inside(op, indices, data.shape[axis])
    rows = prod(data.shape[:batch])
    flat = data.reshape(rows, *data.shape[batch:])
    picked = places.reshape(rows, *indices.shape[batch:])
    shape = (*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    result = np.empty(shape, data.dtype)
    by_row = result.reshape(rows, result.size // max(rows, 1))
    for row, (values, at) in enumerate(zip(flat, picked, strict=True)):
        look()
        by_row[row] = np.take(values, at, axis - batch).reshape(-1)
    return [result]


def _inside(op: Op, indices: np.ndarray, size: int) -> np.ndarray:
    """Indices taken to the nearest existing element."""
    if size == 0 and indices.size:
        raise GraphError(f"{op.label} picks from an axis without elements", where=op.name)
    return np.clip(indices.astype(np.int64), 0, max(size - 1, 0))


register(
    OpDef(
        kind="GATHER",
        attrs=GatherAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *", "* INT16 -> *"),
        infer=infer_ranked(_infer_gather),
        evaluate=_evaluate_gather,
        rules=(
            when_ranked("axes", _gather_axes_exist, "axis and batch_dims must name shared axes"),
            when_ranked("indices", _indices_inside, "constant indices must lie within the axis"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def _infer_gather_nd(op: Op) -> list[TensorType]:
    data, indices = operand(op, 0), operand(op, 1)
    depth = indices.shape[-1]
    if depth is None:
        return [TensorType(data.dtype, op.outputs[0].shape)]
    return [TensorType(data.dtype, (*indices.shape[:-1], *data.shape[depth:]))]


def index_depth_fits(op: Op) -> bool:
    """Whether the last axis of GATHER_ND's indices names at most the axes of its data."""
    data, indices = operand(op, 0).shape, operand(op, 1).shape
    if not indices:
        return False
    return indices[-1] is None or 1 <= indices[-1] <= len(data)


def _nd_indices_inside(op: Op) -> bool:
    indices, sizes = known_ints(op.input(1)), operand(op, 0).shape
    if indices is None:
        return True
    depth = operand(op, 1).shape[-1] or 1
    places = zip(indices, sizes[:depth] * (len(indices) // depth), strict=True)
    return all(size is None or 0 <= index < size for index, size in places)


def _evaluate_gather_nd(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, indices = present(inputs[0]), present(inputs[1])
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= data.ndim:
        held = f"the last axis holds {counted(depth, 'index', 'indices')}"
        why = f"{held}, the data have {counted(data.ndim, 'axis', 'axes')}"
        raise GraphError("GATHER_ND's indices do not fit its data", where=op.name, why=why)
    places = tuple(_inside(op, indices[..., i], data.shape[i]) for i in range(depth))
    return [data[places]]


register(
    OpDef(
        kind="GATHER_ND",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *", "* INT16 -> *"),
        infer=infer_ranked(_infer_gather_nd),
        evaluate=_evaluate_gather_nd,
        rules=(
            when_ranked("depth", index_depth_fits, "the last axis must name axes of the data"),
            when_ranked("indices", _nd_indices_inside, "constant indices must lie inside"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def is_hybrid_lookup(op: Op) -> bool:
    """Whether an EMBEDDING_LOOKUP turns stored rows into floats.

    Old converters stored signed numbers as UINT8: LiteRT reads both types as signed.
    """
    return op.outputs[0].dtype is DType.FLOAT32 and operand(op, 1).dtype is not DType.FLOAT32


def row_scales(op: Op, rows: int) -> np.ndarray:
    """The scale of each row of an integer table."""
    quant = operand(op, 1).quant
    scales = np.ones(1, np.float32) if quant is None else quant.scale
    return np.broadcast_to(np.asarray(scales, np.float32), (rows,))


def _infer_lookup(op: Op) -> list[TensorType]:
    ids, table = operand(op, 0), operand(op, 1)
    return [TensorType(op.outputs[0].dtype, (*ids.shape, *table.shape[1:]))]


def _lookup_fits(op: Op) -> bool:
    return len(operand(op, 0).shape) == 1 and len(operand(op, 1).shape) >= 2


def _lookup_types(op: Op) -> bool:
    return is_hybrid_lookup(op) or operand(op, 1).dtype is op.outputs[0].dtype


def _lookup_scales(op: Op) -> bool:
    table = operand(op, 1)
    if not is_hybrid_lookup(op):
        return True
    quant, rows = table.quant, table.shape[0]
    if quant is None or not quant.is_affine or quant.zero_point.any():
        return False
    return quant.scale.size == 1 or (quant.axis == 0 and quant.scale.size == rows)


def _evaluate_lookup(op: Op, inputs: Arrays) -> list[np.ndarray]:
    ids, table = present(inputs[0]), present(inputs[1])
    if ids.ndim != 1 or table.ndim < 2:
        raise GraphError("EMBEDDING_LOOKUP needs a list of ids and a table", where=op.name)
    places = _inside(op, ids, table.shape[0])
    rows = table[places]
    if not is_hybrid_lookup(op):
        return [rows]
    scales = row_scales(op, table.shape[0])[places].reshape(-1, *(1,) * (table.ndim - 1))
    return [rows.view(np.int8).astype(np.float32) * scales]


register(
    OpDef(
        kind="EMBEDDING_LOOKUP",
        arity=(2, 2),
        required=2,
        dtypes=(
            "INT32 FLOAT32 -> FLOAT32",
            "INT32 INT8 -> INT8",
            "INT32 UINT8 -> UINT8",
            "INT32 INT8 -> FLOAT32",
            "INT32 UINT8 -> FLOAT32",
        ),
        infer=infer_ranked(_infer_lookup),
        evaluate=_evaluate_lookup,
        rules=(
            Rule("types", _lookup_types, "the output must have the table's type, or FLOAT32"),
            when_ranked("table", _lookup_fits, "ids must be a list and the table have rows"),
            Rule("scales", _lookup_scales, "an integer table needs scales, one or one per row"),
        ),
    )
)
