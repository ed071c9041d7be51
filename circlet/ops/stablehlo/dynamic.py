"""StableHLO's DYNAMIC_SLICE and DYNAMIC_UPDATE_SLICE: starts are single elements, one per axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType
from circlet.ops.operands import (
    operand,
    present,
    same_as_first,
    same_dtypes,
    when_ranked,
)
from circlet.ops.stablehlo.types import (
    INDICES,
    MANY,
    define,
)


@dataclass(frozen=True)
class DynamicSliceAttrs:
    """How many elements of each axis are taken."""

    slice_sizes: tuple[int, ...] = ()


def _starts_fit(first: int) -> Callable[[Op], bool]:
    """Whether there is a single start for each axis, from input `first` on, of one index type."""

    def holds(op: Op) -> bool:
        starts = [operand(op, index) for index in range(first, len(op.inputs))]
        single = all(start.shape == () for start in starts)
        types = {start.dtype.name for start in starts}
        return single and len(starts) == len(operand(op, 0).shape) and len(types) <= 1

    return holds


def _starts_are_indices(first: int) -> Callable[[Op], bool]:
    return lambda op: all(
        operand(op, index).dtype.name in INDICES for index in range(first, len(op.inputs))
    )


def _parts_within(whole: Shape, part: Shape) -> bool:
    pairs = zip(whole, part, strict=False)
    within = all(a is None or b is None or 0 <= b <= a for a, b in pairs)
    return len(whole) == len(part) and within


def _started(inputs: Arrays, shape: tuple[int, ...], part: tuple[int, ...]) -> tuple[slice, ...]:
    """The part that starts where single elements say, moved to lie inside."""
    starts = [int(present(array).reshape(-1)[0]) for array in inputs]
    rows = zip(starts, shape, part, strict=True)
    firsts = [min(max(start, 0), whole - size) for start, whole, size in rows]
    return tuple(slice(at, at + size) for at, size in zip(firsts, part, strict=True))


def _evaluate_dynamic_slice(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, sizes = present(inputs[0]), op.attributes(DynamicSliceAttrs).slice_sizes
    if not _parts_within(source.shape, sizes):
        raise GraphError("a slice is larger than its input", where=op.name, why=str(sizes))
    return [source[_started(inputs[1:], source.shape, sizes)].copy()]


define(
    OpDef(
        kind="STABLEHLO_DYNAMIC_SLICE",
        attrs=DynamicSliceAttrs,
        arity=(1, MANY),
        dtypes=("* -> *",),
        infer=lambda op: [
            TensorType(operand(op, 0).dtype, op.attributes(DynamicSliceAttrs).slice_sizes)
        ],
        evaluate=_evaluate_dynamic_slice,
        rules=(
            Rule("index-types", _starts_are_indices(1), "starts must be INT32 or INT64"),
            when_ranked("starts", _starts_fit(1), "there must be one single start per axis"),
            when_ranked(
                "sizes",
                lambda op: _parts_within(
                    operand(op, 0).shape, op.attributes(DynamicSliceAttrs).slice_sizes
                ),
                "the slice must be no larger than the input",
            ),
        ),
    )
)


def _evaluate_update(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, update = present(inputs[0]), present(inputs[1])
    if not _parts_within(source.shape, update.shape):
        raise GraphError("an update is larger than its input", where=op.name)
    result = source.copy()
    result[_started(inputs[2:], source.shape, update.shape)] = update
    return [result]


define(
    OpDef(
        kind="STABLEHLO_DYNAMIC_UPDATE_SLICE",
        arity=(2, MANY),
        required=2,
        dtypes=("* * -> *",),
        infer=same_as_first,
        evaluate=_evaluate_update,
        rules=(
            same_dtypes(0, 1),
            Rule("index-types", _starts_are_indices(2), "starts must be INT32 or INT64"),
            when_ranked("starts", _starts_fit(2), "there must be one single start per axis"),
            when_ranked(
                "update",
                lambda op: _parts_within(operand(op, 0).shape, operand(op, 1).shape),
                "the update must be no larger than the input",
            ),
        ),
    )
)
