"""RaggedTensorToTensor: rows of differing lengths as one array, filled up with a default."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.guard import current_guard
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import known_ints, operand, present
from circlet.words import counted

Int64 = npt.NDArray[np.int64]

_FIRST, _ROWS, _SPLITS = "FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"
_MOST_PARTITIONS = 8


@dataclass(frozen=True)
class RaggedTensorToTensorAttrs:
    """How each partition says which row values belong to, the outermost first."""

    row_partition_types: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """The types of those that divide values into rows."""
        types = self.row_partition_types
        return types[1:] if types[:1] == (_FIRST,) else types


def _rank(op: Op) -> int:
    return len(op.attributes(RaggedTensorToTensorAttrs).levels) + len(operand(op, 1).shape)


def _infer(op: Op) -> list[TensorType]:
    values, sizes = operand(op, 1), known_ints(op.input(0))
    levels, rank = len(op.attributes(RaggedTensorToTensorAttrs).levels), _rank(op)
    if not values.has_rank:
        return [TensorType(values.dtype, op.outputs[0].shape)]
    unknown: Shape = (None,) * (levels + 1)
    if sizes is not None and len(sizes) == rank:
        unknown = tuple(None if size < 0 else size for size in sizes[: levels + 1])
    return [TensorType(values.dtype, (*unknown, *values.shape[1:]))]


def _types_hold(op: Op) -> bool:
    attrs = op.attributes(RaggedTensorToTensorAttrs)
    types = attrs.row_partition_types
    if len(types) != len(op.inputs) - 3 or not attrs.levels or types[0] == _ROWS:
        return False
    return all(level in (_ROWS, _SPLITS) for level in attrs.levels)


def _damaged(op: Op, why: str) -> GraphError:
    return GraphError("a partition of rows does not fit", where=op.name, why=why)


def _rows_of(op: Op, kind: str, partition: np.ndarray, parents: int) -> Int64:
    """The row of each child, by row numbers or by where rows start and end."""
    numbers = partition.reshape(-1).astype(np.int64)
    if kind == _SPLITS:
        counts = np.diff(numbers)
        if len(numbers) != parents + 1 or numbers[0] != 0 or (counts < 0).any():
            raise _damaged(op, f"row splits of {counted(parents, 'row')} must rise from 0")
        _check(op, int(numbers[-1]) * 8)
        numbers = np.repeat(np.arange(parents), counts)
    elif ((numbers < 0) | (numbers >= parents)).any():
        raise _damaged(op, f"a row number lies outside of {counted(parents, 'row')}")
    return numbers


def _columns(rows: Int64) -> Int64:
    """The place of each child in its row, where children of one row follow each other."""
    if not len(rows):
        return rows
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    return np.arange(len(rows)) - np.repeat(starts, np.diff([*starts, len(rows)]))


def _check(op: Op, size_bytes: int) -> None:
    budget = current_guard().budget
    budget.charge(size_bytes, f"{op.name} ({op.label})", "rows of one length")
    budget.release(size_bytes)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, arrays = op.attributes(RaggedTensorToTensorAttrs), list(map(present, inputs))
    wanted, values, default, partitions = arrays[0], arrays[1], arrays[2], arrays[3:]
    first = len(partitions[0].reshape(-1)) - 1
    if attrs.row_partition_types[0] == _FIRST:
        first, partitions = int(partitions[0].reshape(-1)[0]), partitions[1:]
    asked = [int(size) for size in wanted.reshape(-1)]
    sizes = (asked or [-1] * _rank(op))[: len(partitions) + 1]
    if len(sizes) <= len(partitions) or first < 0:
        raise _damaged(op, f"sizes {asked} are asked for, of {counted(first, 'row')}")
    sizes[0] = first if sizes[0] < 0 else sizes[0]
    _check(op, 8 * first)
    places = np.arange(first)
    kept = places < sizes[0]
    for level, (kind, partition) in enumerate(zip(attrs.levels, partitions, strict=True), 1):
        rows = _rows_of(op, kind, partition, len(places))
        columns = _columns(rows)
        if sizes[level] < 0:
            sizes[level] = int(columns.max(initial=-1)) + 1
        kept = kept[rows] & (columns < sizes[level])
        places = places[rows] * sizes[level] + columns
    return [_scattered(op, (values, default), sizes, places, kept)]


def _scattered(
    op: Op, arrays: tuple[np.ndarray, np.ndarray], sizes: list[int], places: Int64, kept: np.ndarray
) -> np.ndarray:
    values, default = arrays
    if len(places) != len(values):
        counts = f"{counted(len(values), 'value')} for {counted(len(places), 'place')}"
        raise _damaged(op, counts)
    _check(op, prod(sizes) * prod(values.shape[1:]) * values.itemsize)
    result = np.full((prod(sizes), *values.shape[1:]), default.reshape(-1)[0], values.dtype)
    result[places[kept]] = values[kept]
    return result.reshape(*sizes, *values.shape[1:])


register(
    OpDef(
        kind="CUSTOM:RaggedTensorToTensor",
        attrs=RaggedTensorToTensorAttrs,
        arity=(4, 3 + _MOST_PARTITIONS),
        required=4,
        dtypes=tuple(
            f"{sizes} {dtype} {dtype} -> {dtype}"
            for sizes in ("INT32", "INT64")
            for dtype in ("INT32", "INT64", "FLOAT32")
        ),
        infer=_infer,
        evaluate=_evaluate,
        rules=(
            Rule(
                "partitions",
                _types_hold,
                "each partition needs a type, FIRST_DIM_SIZE at most the first, or row splits",
                sized=False,
            ),
            Rule(
                "default",
                lambda op: prod(size or 0 for size in operand(op, 2).shape) == 1,
                "the default must be one element",
            ),
        ),
    )
)
