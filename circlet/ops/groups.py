"""Ops over diagonals and groups: MATRIX_DIAG, MATRIX_SET_DIAG, UNIQUE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.opdef import Arrays, Cost, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    moves_bytes,
    operand,
    present,
    same_as_first,
    same_dtypes,
    sizes_agree,
    when_ranked,
)
from circlet.ops.parts import stable_order

_NUMBERS = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64")


def _infer_diagonal(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    return [TensorType(data.dtype, (*data.shape, data.shape[-1]))]


def _evaluate_diagonal(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data = present(inputs[0])
    if data.ndim == 0:
        raise GraphError("MATRIX_DIAG needs at least one axis", where=op.name)
    size = data.shape[-1]
    result = np.zeros((*data.shape, size), data.dtype)
    result[..., range(size), range(size)] = data
    return [result]


register(
    OpDef(
        kind="MATRIX_DIAG",
        arity=(1, 1),
        dtypes=tuple(f"{name} -> {name}" for name in _NUMBERS),
        infer=infer_ranked(_infer_diagonal),
        evaluate=_evaluate_diagonal,
        rules=(when_ranked("rank", lambda op: bool(operand(op, 0).shape), "an axis is needed"),),
        quant=QuantRule(same_as_input=True),
    )
)


def _diagonal_fits(op: Op) -> bool:
    matrix, diagonal = operand(op, 0).shape, operand(op, 1).shape
    if len(matrix) < 2:
        return False
    sides = [size for size in matrix[-2:] if size is not None]
    shorter = min(sides) if len(sides) == 2 else None
    return sizes_agree((*matrix[:-2], shorter), diagonal)


def _evaluate_set_diagonal(op: Op, inputs: Arrays) -> list[np.ndarray]:
    matrix, diagonal = present(inputs[0]), present(inputs[1])
    wanted = (*matrix.shape[:-2], min(matrix.shape[-2:], default=0))
    if matrix.ndim < 2 or diagonal.shape != wanted:
        why = f"matrix {matrix.shape}, diagonal {diagonal.shape}"
        raise GraphError("MATRIX_SET_DIAG's operands do not fit", where=op.name, why=why)
    result = matrix.copy()
    result[..., range(wanted[-1]), range(wanted[-1])] = diagonal
    return [result]


register(
    OpDef(
        kind="MATRIX_SET_DIAG",
        arity=(2, 2),
        required=2,
        dtypes=tuple(f"{name} {name} -> {name}" for name in _NUMBERS),
        infer=infer_ranked(same_as_first),
        evaluate=_evaluate_set_diagonal,
        rules=(
            same_dtypes(0, 1),
            when_ranked("diagonal", _diagonal_fits, "the diagonal must fit the matrices"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class UniqueAttrs:
    """Type of the indices."""

    idx_out_type: str = "INT32"


def _infer_unique(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    return [TensorType(data.dtype, (None,)), TensorType(op.outputs[1].dtype, data.shape)]


def _index_type_fits(op: Op) -> bool:
    wanted = op.attributes(UniqueAttrs).idx_out_type
    return op.outputs[1].dtype.name == wanted and wanted in ("INT32", "INT64")


def _evaluate_unique(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data = present(inputs[0])
    values = data.reshape(-1)
    order = stable_order(values)
    first, places = _groups(values[order], order)
    by_place = np.argsort(first, kind="stable")
    rank = np.empty_like(by_place)
    rank[by_place] = np.arange(by_place.size)
    index_type = op.outputs[1].dtype.numpy
    return [values[first[by_place]], rank[places].reshape(data.shape).astype(index_type)]


def _groups(rising: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct value stands first, and the number of the value of each element.

    `rising` are the elements in `order`; those that are not numbers count as one value.
    """
    starts = np.ones(len(rising), bool)
    starts[1:] = rising[1:] != rising[:-1]
    starts[1:] &= ~((rising[1:] != rising[1:]) & (rising[:-1] != rising[:-1]))
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(starts) - 1
    return order[starts], places


def _unique_cost(op: Op) -> Cost:
    """A sort, and another of what is found."""
    elements = operand(op, 0).elements
    return Cost(bytes=moves_bytes(op).bytes, operations=2 * elements * elements.bit_length())


register(
    OpDef(
        kind="UNIQUE",
        attrs=UniqueAttrs,
        arity=(1, 1),
        outputs=2,
        dtypes=tuple(f"{name} -> {name}" for name in _NUMBERS),
        infer=infer_ranked(_infer_unique),
        evaluate=_evaluate_unique,
        rules=(
            Rule("index-type", _index_type_fits, "indices must have the stated integer type"),
            when_ranked("rank", lambda op: len(operand(op, 0).shape) == 1, "a list is needed"),
        ),
        cost=_unique_cost,
        quant=QuantRule(same_as_input=True),
    )
)
