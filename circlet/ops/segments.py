"""Ops that join rows of one segment: SEGMENT_SUM and UNSORTED_SEGMENT_SUM, _PROD, _MAX, _MIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    known_ints,
    operand,
    present,
    sizes_agree,
    when_ranked,
)
from circlet.words import counted

_MOST_SPARE_ROWS = 1 << 16


class Join(NamedTuple):
    """How rows are joined, and what segments start as; `name` is that of the native form."""

    name: str
    onto: np.ufunc
    start: Callable[[np.dtype[np.generic]], float]


def _extreme(end: str) -> Callable[[np.dtype[np.generic]], float]:
    def start(dtype: np.dtype[np.generic]) -> float:
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)  # type: ignore[type-var]
        return float(getattr(limits, end))

    return start


JOINS = {
    "SEGMENT_SUM": Join("add", np.add, lambda dtype: 0),
    "UNSORTED_SEGMENT_SUM": Join("add", np.add, lambda dtype: 0),
    "UNSORTED_SEGMENT_PROD": Join("mul", np.multiply, lambda dtype: 1),
    "UNSORTED_SEGMENT_MAX": Join("max", np.fmax, _extreme("min")),
    "UNSORTED_SEGMENT_MIN": Join("min", np.fmin, _extreme("max")),
}


def start_of(op: Op) -> np.ndarray:
    """The element that a segment of no rows has."""
    dtype = operand(op, 0).dtype.numpy
    return np.array([JOINS[op.kind].start(dtype)], dtype)


def _joined(op: Op, data: np.ndarray, ids: np.ndarray, segments: int) -> np.ndarray:
    """Rows of `data` joined in order; ids outside change nothing."""
    inner = data.shape[ids.ndim :]
    result = np.full((segments, *inner), start_of(op)[0], data.dtype)
    flat, rows = ids.reshape(-1), data.reshape(ids.size, *inner)
    inside = (flat >= 0) & (flat < segments)
    with np.errstate(all="ignore"):
        JOINS[op.kind].onto.at(result, flat[inside], rows[inside])
    return result


def _ids_fit(op: Op) -> bool:
    data, ids = operand(op, 0).shape, operand(op, 1).shape
    return len(ids) <= len(data) and sizes_agree(data[: len(ids)], ids)


def _known_rows(op: Op) -> int | None:
    ids = known_ints(op.input(1))
    return None if ids is None else max(ids, default=-1) + 1


def _infer_rising(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    return [TensorType(data.dtype, (_known_rows(op), *data.shape[1:]))]


def _evaluate_rising(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, ids = present(inputs[0]), present(inputs[1])
    fits = data.ndim >= 1 and ids.shape == data.shape[:1]
    if not fits or (ids.size and (ids[0] < 0 or (np.diff(ids.astype(np.int64)) < 0).any())):
        raise GraphError("SEGMENT_SUM needs rising ids, one per row", where=op.name)
    rows = int(ids[-1]) + 1 if ids.size else 0
    if rows > max(_MOST_SPARE_ROWS, 4 * data.shape[0]):
        raise GraphError(
            "SEGMENT_SUM leaves most rows empty", where=op.name, why=counted(rows, "row")
        )
    return [_joined(op, data, ids, rows)]


def _rises(op: Op) -> bool:
    ids, data = known_ints(op.input(1)), operand(op, 0)
    if ids is None or not ids:
        return True
    most = max(_MOST_SPARE_ROWS, 4 * (data.shape[0] or 0))
    return ids[0] >= 0 and list(ids) == sorted(ids) and ids[-1] < most


register(
    OpDef(
        kind="SEGMENT_SUM",
        arity=(2, 2),
        required=2,
        dtypes=("INT32 INT32 -> INT32", "FLOAT32 INT32 -> FLOAT32"),
        infer=infer_ranked(_infer_rising),
        evaluate=_evaluate_rising,
        rules=(
            Rule("ids", lambda op: operand(op, 1).dtype is DType.INT32, "ids must be INT32"),
            when_ranked(
                "rows",
                lambda op: len(operand(op, 1).shape) == 1 and _ids_fit(op),
                "there must be one id per row",
            ),
            when_ranked("rising", _rises, "ids must not be negative, fall, or leave most rows out"),
        ),
    )
)


def _infer_any(op: Op) -> list[TensorType]:
    data, ids, counts = operand(op, 0), operand(op, 1), known_ints(op.input(2))
    inner: Shape = data.shape[len(ids.shape) :]
    return [TensorType(data.dtype, (counts[0] if counts else None, *inner))]


def _count_fits(op: Op) -> bool:
    counts = known_ints(op.input(2))
    return counts is None or (len(counts) == 1 and counts[0] >= 0)


def _evaluate_any(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, ids, counts = present(inputs[0]), present(inputs[1]), present(inputs[2]).reshape(-1)
    if counts.size != 1 or counts[0] < 0 or ids.shape != data.shape[: ids.ndim]:
        why = f"data {data.shape}, ids {ids.shape}, segments {counts.tolist()}"
        raise GraphError(f"{op.kind}'s operands do not fit each other", where=op.name, why=why)
    return [_joined(op, data, ids, int(counts[0]))]


for _kind in ("SUM", "PROD", "MAX", "MIN"):
    register(
        OpDef(
            kind=f"UNSORTED_SEGMENT_{_kind}",
            arity=(3, 3),
            required=3,
            dtypes=("INT32 INT32 INT32 -> INT32", "FLOAT32 INT32 INT32 -> FLOAT32"),
            infer=infer_ranked(_infer_any),
            evaluate=_evaluate_any,
            rules=(
                when_ranked("rows", _ids_fit, "ids must have the first sizes of the data"),
                Rule("segments", _count_fits, "there must be one number of segments"),
            ),
        )
    )
