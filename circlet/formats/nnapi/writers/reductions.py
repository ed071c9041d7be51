"""Sums, products, extrema and positions along axes."""

from __future__ import annotations

from circlet.formats.nnapi.writing import NotWrittenError, Written, writes
from circlet.ops.reduce import ReducerAttrs

_KINDS = {
    "SUM": "REDUCE_SUM",
    "REDUCE_PROD": "REDUCE_PROD",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
    "REDUCE_ANY": "REDUCE_ANY",
    "REDUCE_ALL": "REDUCE_ALL",
}


@writes("MEAN")
def _mean(op: Written) -> None:
    keep = op.attrs(ReducerAttrs).keep_dims
    op.operation("MEAN", [op[0], op[1], op.whole(int(keep))])


@writes(*_KINDS)
def _reduce(op: Written) -> None:
    keep = op.attrs(ReducerAttrs).keep_dims
    op.operation(_KINDS[op.op.kind], [op[0], op[1], op.flag(keep)])


@writes("ARG_MAX", "ARG_MIN")
def _position(op: Written) -> None:
    kind = op.op.kind.replace("_", "")
    op.operation(kind, [op[0], op.number(op[1])])


@writes("TOPK_V2")
def _topk(op: Written) -> None:
    if len(op.op.outputs) != 2:
        raise NotWrittenError("it has other outputs than values and positions")
    op.operation("TOPK_V2", [op[0], op.number(op[1])])
