"""Ops that write where indices point: SCATTER_ND, DYNAMIC_UPDATE_SLICE, SPARSE_TO_DENSE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    count,
    infer_ranked,
    known_ints,
    operand,
    present,
    same_as_first,
    same_dtypes,
    sizes_agree,
    when_ranked,
)
from circlet.ops.slicing import ints, lists
from circlet.words import counted

SCATTERED = ("FLOAT32", "UINT8", "INT8", "INT16", "INT32", "INT64")


def _infer_sized(values: int, sizes: int) -> Callable[[Op], list[TensorType]]:
    """The type of input `values`, and the sizes that input `sizes` lists."""

    def infer(op: Op) -> list[TensorType]:
        dtype, listed = operand(op, values).dtype, known_ints(op.input(sizes))
        if listed is not None:
            return [TensorType(dtype, listed)]
        length = operand(op, sizes).shape
        rank = length[0] if len(length) == 1 else None
        return [TensorType(dtype, op.outputs[0].shape if rank is None else (None,) * rank)]

    return infer_ranked(infer)


def _not_negative(index: int) -> Rule:
    """Rule: the sizes that input `index` lists can be."""

    def holds(op: Op) -> bool:
        return min(known_ints(op.input(index)) or (0,)) >= 0

    return Rule("sizes", holds, "sizes must not be negative")


def _updates_fit(op: Op) -> bool:
    indices, updates, sizes = operand(op, 0).shape, operand(op, 1).shape, known_ints(op.input(2))
    if not indices:
        return False
    if sizes is None or indices[-1] is None:
        return True
    depth = indices[-1]
    return 1 <= depth <= len(sizes) and sizes_agree((*indices[:-1], *sizes[depth:]), updates)


def _evaluate_scatter_nd(op: Op, inputs: Arrays) -> list[np.ndarray]:
    indices, updates, sizes = present(inputs[0]), present(inputs[1]), ints(inputs[2])
    depth = indices.shape[-1] if indices.ndim else 0
    valid = 1 <= depth <= len(sizes) and min(sizes, default=0) >= 0
    if not valid or updates.shape != (*indices.shape[:-1], *sizes[depth:]):
        why = f"indices {indices.shape}, updates {updates.shape}, sizes {sizes}"
        raise GraphError("SCATTER_ND's operands do not fit each other", where=op.name, why=why)
    result = np.zeros(sizes, updates.dtype)
    rows = indices.reshape(-1, depth)
    inside = ((rows >= 0) & (rows < np.array(sizes[:depth]))).all(axis=1)
    parts = updates.reshape(len(rows), *sizes[depth:])
    np.add.at(result, tuple(rows[inside].T), parts[inside])
    return [result]


register(
    OpDef(
        kind="SCATTER_ND",
        arity=(3, 3),
        required=3,
        dtypes=tuple(f"INT32 {name} INT32 -> {name}" for name in SCATTERED),
        infer=_infer_sized(1, 2),
        evaluate=_evaluate_scatter_nd,
        rules=(
            lists(2),
            _not_negative(2),
            when_ranked("updates", _updates_fit, "updates must have the sizes indices leave open"),
        ),
    )
)


def _update_fits(op: Op) -> bool:
    data, update, starts = (operand(op, index).shape for index in range(3))
    if len(data) != len(update) or len(starts) != 1 or starts[0] not in (len(data), None):
        return False
    pairs = zip(data, update, strict=True)
    return all(whole is None or part is None or part <= whole for whole, part in pairs)


def _evaluate_update(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, update, starts = present(inputs[0]), present(inputs[1]), ints(inputs[2])
    fits = data.ndim == update.ndim == len(starts)
    if not fits or any(part > whole for part, whole in zip(update.shape, data.shape, strict=True)):
        why = f"data {data.shape}, update {update.shape}, {counted(len(starts), 'start')}"
        raise GraphError("DYNAMIC_UPDATE_SLICE's operands do not fit", where=op.name, why=why)
    rows = zip(starts, update.shape, data.shape, strict=True)
    first = [min(max(start, 0), whole - part) for start, part, whole in rows]
    result = data.copy()
    result[tuple(slice(at, at + n) for at, n in zip(first, update.shape, strict=True))] = update
    return [result]


register(
    OpDef(
        kind="DYNAMIC_UPDATE_SLICE",
        arity=(3, 3),
        required=3,
        dtypes=("* * INT32 -> *", "* * INT64 -> *"),
        infer=infer_ranked(same_as_first),
        evaluate=_evaluate_update,
        continues=((0, 0),),
        shape_inputs=(2,),
        rules=(
            same_dtypes(0, 1),
            when_ranked("update", _update_fits, "the update must fit into the data"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class SparseToDenseAttrs:
    """Whether the file asks for sorted, unrepeated indices; nothing checks them."""

    validate_indices: bool = False


def _places_fit(op: Op) -> bool:
    """One row of indices for each value (or for all), as long as there are dimensions."""
    indices, depth = operand(op, 0).shape, count(operand(op, 1).shape)
    rows, width = indices if len(indices) == 2 else (count(indices), 1)
    values = count(operand(op, 2).shape)
    fits = len(indices) <= 2 and depth != 0 and (None in (depth, width) or depth == width)
    return fits and (rows is None or values in (None, 1, rows))


def _filler_is_one(op: Op) -> bool:
    filler = operand(op, 3)
    return filler.dtype is operand(op, 2).dtype and count(filler.shape) in (1, None)


def _evaluate_sparse(op: Op, inputs: Arrays) -> list[np.ndarray]:
    indices, sizes, values = present(inputs[0]), ints(inputs[1]), present(inputs[2]).reshape(-1)
    filler = present(inputs[3]).reshape(-1)
    rows = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    fits = rows.ndim == 2 and rows.shape[1] == len(sizes) and filler.size == 1
    if not fits or values.size not in (1, len(rows)) or min(sizes, default=0) < 0:
        why = f"indices {indices.shape}, {counted(values.size, 'value')}, sizes {sizes}"
        raise GraphError("SPARSE_TO_DENSE's operands do not fit", where=op.name, why=why)
    result = np.full(sizes, filler[0], values.dtype)
    inside = ((rows >= 0) & (rows < np.array(sizes))).all(axis=1)
    spread = np.broadcast_to(values, len(rows))
    places, found = rows[inside], spread[inside]
    flat = np.ravel_multi_index(tuple(places.T), result.shape) if len(places) else places[:, :0]
    result.reshape(-1)[flat.reshape(-1)] = found
    return [result]


register(
    OpDef(
        kind="SPARSE_TO_DENSE",
        attrs=SparseToDenseAttrs,
        arity=(4, 4),
        required=4,
        dtypes=tuple(
            f"{index} {index} {value} {value} -> {value}"
            for index in ("INT32", "INT64")
            for value in ("FLOAT32", "INT32", "INT64", "INT8", "UINT8")
        ),
        infer=_infer_sized(2, 1),
        evaluate=_evaluate_sparse,
        rules=(
            lists(1),
            _not_negative(1),
            Rule("default", _filler_is_one, "the default must be one element of the values' type"),
            when_ranked("places", _places_fit, "indices must be rows of one index per dimension"),
        ),
    )
)
