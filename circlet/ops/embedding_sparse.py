"""EMBEDDING_LOOKUP_SPARSE: weighted sums of the rows of a table that the ids of each list name."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes, register
from circlet.ops.operands import infer_ranked, known_ints, operand, present, when_ranked
from circlet.words import counted


@dataclass(frozen=True)
class EmbeddingLookupSparseAttrs:
    """What sums are divided by: "SUM" nothing, "MEAN" weights, "SQRTN" the weights' length."""

    combiner: str = "SUM"


def _infer(op: Op) -> list[TensorType]:
    indices, sizes, table = operand(op, 1), known_ints(op.input(2)), operand(op, 4)
    if sizes is not None:
        return [TensorType(DType.FLOAT32, (*sizes[:-1], *table.shape[1:]))]
    rank = indices.shape[1]
    if rank is None:
        return [TensorType(DType.FLOAT32, op.outputs[0].shape)]
    unknown: Shape = (None,) * (rank - 1)
    return [TensorType(DType.FLOAT32, (*unknown, *table.shape[1:]))]


def _fits(op: Op) -> bool:
    ids, indices, sizes, weights, table = (operand(op, index) for index in range(5))
    ranks = [len(tensor.shape) for tensor in (ids, indices, sizes, weights)]
    if ranks != [1, 2, 1, 1] or len(table.shape) < 2:
        return False
    counts = {size for size in (ids.shape[0], indices.shape[0], weights.shape[0]) if size}
    depths = {size for size in (indices.shape[1], sizes.shape[0]) if size is not None}
    return len(counts) <= 1 and len(depths) <= 1 and 0 not in depths


def _sizes_hold(op: Op) -> bool:
    sizes = known_ints(op.input(2))
    return sizes is None or min(sizes, default=0) >= 0


def _lists(op: Op, indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The number of the list that each id belongs to."""
    lists = np.zeros(len(indices), np.int64)
    for axis, size in enumerate(sizes):
        if ((indices[:, axis] < 0) | (indices[:, axis] >= size)).any():
            why = f"axis {axis} has {counted(size, 'list')}"
            raise GraphError("an index lies outside of its axis", where=op.name, why=why)
        lists = lists * size + indices[:, axis]
    return lists


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """Neighbouring ids of one list are summed, in order, as LiteRT has it."""
    ids, indices, shape, weights, table = map(present, inputs)
    sizes = tuple(int(size) for size in shape[:-1])
    if min(sizes, default=0) < 0:
        raise GraphError("a size is negative", where=op.name, why=f"sizes {list(sizes)}")
    if ((ids < 0) | (ids >= len(table))).any():
        why = f"the table has {counted(len(table), 'row')}"
        raise GraphError("an id names no row of the table", where=op.name, why=why)
    result = np.zeros((prod(sizes), *table.shape[1:]), np.float32)
    lists = _lists(op, indices, sizes)
    starts = np.flatnonzero(np.diff(lists, prepend=-1))
    for first, last in zip(starts, [*starts[1:], len(lists)], strict=True):
        total = result[lists[first]]
        for place in range(first, last):
            total += table[ids[place]] * weights[place]
        total /= _divisor(op, weights[first:last])
    return [result.reshape(*sizes, *table.shape[1:])]


def _divisor(op: Op, weights: np.ndarray) -> np.float32:
    combiner = op.attributes(EmbeddingLookupSparseAttrs).combiner
    if combiner == "SUM":
        return np.float32(1)
    terms = weights if combiner == "MEAN" else weights * weights
    total = np.add.accumulate(terms, dtype=np.float32)[-1]
    return np.float32(total if combiner == "MEAN" else np.sqrt(total))


def _cost(op: Op) -> Cost:
    table = operand(op, 4)
    row = prod(table.static_shape[1:])
    return moves_bytes(op)._replace(macs=operand(op, 0).elements * row)


register(
    OpDef(
        kind="EMBEDDING_LOOKUP_SPARSE",
        attrs=EmbeddingLookupSparseAttrs,
        arity=(5, 5),
        required=5,
        dtypes=("INT32 INT32 INT32 FLOAT32 FLOAT32 -> FLOAT32",),
        infer=infer_ranked(_infer),
        evaluate=_evaluate,
        rules=(
            when_ranked(
                "sizes", _fits, "it needs lists of ids and weights, an index for each, and a table"
            ),
            Rule("lists", _sizes_hold, "a size is negative", sized=False),
        ),
        cost=_cost,
        numerics="tolerance",
    )
)
