"""SLICE, and what every op that takes a range along each axis shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    known_ints,
    operand,
    present,
    when_ranked,
)
from circlet.ops.view import Range, View

INDEX_TYPES = (DType.INT32, DType.INT64)


@dataclass(frozen=True)
class Slices:
    """One range per axis of the input, and the output's sizes after axes are dropped or added."""

    ranges: tuple[Range, ...]
    shape: Shape

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements taken along each input axis; unknown ones count as 0."""
        return tuple(part.count or 0 for part in self.ranges)


def taken(source: np.ndarray, slices: Slices, op: Op) -> np.ndarray:
    """The elements that slices name, in the output's sizes; GraphError where some do not exist."""
    pairs = list(zip(slices.ranges, source.shape, strict=True))
    if not all(part.fits(size) for part, size in pairs):
        raise GraphError(
            f"{op.label} reaches outside its input",
            where=op.name,
            why=f"the input has sizes {list(source.shape)}, the ranges are {list(slices.ranges)}",
        )
    picks = [part.start + part.step * np.arange(part.count or 0) for part, _ in pairs]
    cut = source[np.ix_(*picks)] if picks else source
    return cut.reshape([size or 0 for size in slices.shape])


def slice_of(shape: Shape, begin: Sequence[int], size: Sequence[int]) -> Slices | None:
    """What a SLICE takes of an input of sizes `shape`; None where the lists do not fit it."""
    if not len(begin) == len(size) == len(shape):
        return None
    rows = zip(shape, begin, size, strict=True)
    ranges = tuple(Range(first, _slice_count(whole, first, n)) for whole, first, n in rows)
    known = [(part, whole) for part, whole in zip(ranges, shape, strict=True) if whole is not None]
    bad = any(part.count is not None and part.count < 0 for part in ranges)
    if bad or any(part.start < 0 for part in ranges):
        return None
    if any((part.count or 0) + part.start > whole for part, whole in known):
        return None
    return Slices(ranges, tuple(part.count for part in ranges))


def _slice_count(whole: int | None, first: int, size: int) -> int | None:
    if size != -1:
        return size
    return None if whole is None else whole - first


def slices_of_slice(op: Op) -> Slices | None:
    """What a SLICE with constant operands takes; None until a run, or where they do not fit."""
    begin, size = known_ints(op.input(1)), known_ints(op.input(2))
    return None if begin is None or size is None else slice_of(operand(op, 0).shape, begin, size)


def _infer_slice(op: Op) -> list[TensorType]:
    source, slices = operand(op, 0), slices_of_slice(op)
    if slices is not None:
        return [TensorType(source.dtype, slices.shape)]
    size = known_ints(op.input(2))
    if size is None or len(size) != len(source.shape):
        return [TensorType(source.dtype, (None,) * len(source.shape))]
    return [TensorType(source.dtype, tuple(n if n >= 0 else None for n in size))]


def _slice_view(op: Op, index: int) -> View | None:
    slices = slices_of_slice(op)
    return None if slices is None else View(0, slices.ranges)


def _slice_fits(op: Op) -> bool:
    is_known = all(known_ints(op.input(index)) is not None for index in (1, 2))
    return not is_known or slices_of_slice(op) is not None


def _evaluate_slice(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    begin, size = ints(inputs[1]), ints(inputs[2])
    slices = slice_of(source.shape, begin, size)
    if slices is None:
        why = f"begin {begin} and size {size} do not fit {list(source.shape)}"
        raise GraphError("SLICE reaches outside its input", where=op.name, why=why)
    return [taken(source, slices, op)]


def ints(array: np.ndarray | None) -> list[int]:
    """The elements of an integer operand that must be present."""
    return [int(value) for value in present(array).reshape(-1)]


def lists(*indices: int) -> Rule:
    """Rule: the named inputs are INT32 or INT64 lists, all of one type."""

    def holds(op: Op) -> bool:
        given = [operand(op, index) for index in indices]
        flat = all(len(t.shape) == 1 or not (t.has_rank or t.is_constant) for t in given)
        return flat and len({t.dtype for t in given}) == 1 and given[0].dtype in INDEX_TYPES

    return Rule("positions", holds, "positions and sizes must be INT32 or INT64 lists")


def _takes_all(op: Op) -> bool:
    """Where sizes are open, lists must be known to skip and to leave nothing."""
    begin, size = known_ints(op.input(1)), known_ints(op.input(2))
    if None not in operand(op, 0).shape:
        return True
    return begin is not None and size is not None and {*begin} == {0} and {*size} == {-1}


register(
    OpDef(
        kind="SLICE",
        arity=(3, 3),
        required=3,
        dtypes=("* INT32 INT32 -> *", "* INT64 INT64 -> *"),
        infer=infer_ranked(_infer_slice),
        evaluate=_evaluate_slice,
        identity=_takes_all,
        view=_slice_view,
        shape_inputs=(1, 2),
        rules=(
            lists(1, 2),
            when_ranked("range", _slice_fits, "begin and size must stay within the input"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
