"""DILATE and STABLEHLO_PAD: elements put apart, with a value between and around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType
from circlet.ops.operands import (
    count,
    known_ints,
    operand,
    present,
    same_dtypes,
    when_ranked,
)
from circlet.ops.slicing import ints
from circlet.ops.stablehlo.types import (
    define,
)
from circlet.words import counted

_MOST = 1 << 31


@dataclass(frozen=True)
class Spread:
    """Where elements of one axis come to lie: at `low + step * index`, where that is inside.

    Attributes:
        low: Place of the first element; below 0 where elements are cut off.
        step: Places from one element to the next.
        size: Places of the result.
    """

    low: int
    step: int
    size: int

    def kept(self, count: int) -> range:
        """The elements of `count` that come to lie inside."""
        first = max(0, -(self.low // self.step))
        last = min(count, -((self.low - self.size) // self.step))
        return range(first, max(first, last))


def spread_size(size: int | None, low: int, high: int, interior: int) -> int | None:
    """How many places an axis has then, None where its size is not known."""
    return None if size is None else size + max(size - 1, 0) * interior + low + high


def spread_out(source: np.ndarray, axes: Sequence[Spread], value: np.ndarray) -> np.ndarray:
    """Elements at their places, a value everywhere else."""
    if not source.ndim:
        return source
    result = np.full([axis.size for axis in axes], value, source.dtype)
    kept = [axis.kept(size) for axis, size in zip(axes, source.shape, strict=True)]
    if not all(kept) or not result.size:
        return result
    taken = tuple(slice(part.start, part.stop) for part in kept)
    places = tuple(
        slice(axis.low + part.start * axis.step, None, axis.step)
        for axis, part in zip(axes, kept, strict=True)
    )
    counted = tuple(slice(0, len(part)) for part in kept)
    result[places][counted] = source[taken]
    return result


def _value_is_single(index: int) -> Rule:
    return Rule(
        "value",
        lambda op: count(operand(op, index).shape) in (1, None),
        "the value to fill with must be one element",
    )


def _dilated_shape(sizes: Shape, steps: Sequence[int]) -> Shape:
    return tuple(spread_size(size, 0, 0, step - 1) for size, step in zip(sizes, steps, strict=True))


def _infer_dilate(op: Op) -> list[TensorType]:
    source, steps = operand(op, 0), known_ints(op.input(1))
    unknown = (None,) * len(source.shape)
    shape = unknown if steps is None else _dilated_shape(source.shape, steps)
    return [TensorType(source.dtype, shape)]


def _steps_fit(op: Op) -> bool:
    steps, source, listed = known_ints(op.input(1)), operand(op, 0).shape, operand(op, 1).shape
    if not source or len(listed) != 1 or listed[0] not in (len(source), None):
        return False
    return steps is None or all(1 <= step < _MOST for step in steps)


def dilate_spreads(sizes: Sequence[int], steps: Sequence[int]) -> list[Spread]:
    """Where the elements of an operand of these sizes come to lie, by their steps."""
    rows = zip(sizes, steps, strict=True)
    return [Spread(0, step, size + max(size - 1, 0) * (step - 1)) for size, step in rows]


def _evaluate_dilate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, steps, value = present(inputs[0]), ints(inputs[1]), present(inputs[2])
    if len(steps) != source.ndim or min(steps, default=1) < 1 or value.size != 1:
        why = f"steps {steps}, input {source.shape}, {counted(value.size, 'value')}"
        raise GraphError("DILATE's operands do not fit each other", where=op.name, why=why)
    return [spread_out(source, dilate_spreads(source.shape, steps), value.reshape(()))]


define(
    OpDef(
        kind="DILATE",
        arity=(3, 3),
        required=3,
        dtypes=("* INT32 * -> *",),
        infer=_infer_dilate,
        evaluate=_evaluate_dilate,
        shape_inputs=(1,),
        rules=(
            same_dtypes(0, 2),
            when_ranked("steps", _steps_fit, "there must be one step per axis, 1 or more"),
            _value_is_single(2),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class PadAttrs:
    """What is put before, behind and between the elements of each axis; below 0 cuts off."""

    edge_padding_low: tuple[int, ...] = ()
    edge_padding_high: tuple[int, ...] = ()
    interior_padding: tuple[int, ...] = ()


def pad_rows(op: Op) -> list[tuple[int, int, int]]:
    """Padding before, behind and between, of each axis."""
    attrs = op.attributes(PadAttrs)
    lists = (attrs.edge_padding_low, attrs.edge_padding_high, attrs.interior_padding)
    return list(zip(*lists, strict=True))


def _pad_shape(op: Op, sizes: Shape) -> Shape:
    return tuple(spread_size(size, *row) for size, row in zip(sizes, pad_rows(op), strict=True))


def pad_spreads(op: Op, sizes: tuple[int, ...]) -> list[Spread]:
    """Where the elements of an operand of these sizes come to lie."""
    rows = zip(pad_rows(op), _pad_shape(op, sizes), strict=True)
    return [Spread(low, 1 + interior, size or 0) for (low, _, interior), size in rows]


def _lists_fit(op: Op) -> bool:
    attrs, rank = op.attributes(PadAttrs), len(operand(op, 0).shape)
    lists = (attrs.edge_padding_low, attrs.edge_padding_high, attrs.interior_padding)
    return all(len(each) == rank for each in lists)


def _amounts_fit(op: Op) -> bool:
    bounded = all(max(map(abs, row)) < _MOST and row[2] >= 0 for row in pad_rows(op))
    sizes = _pad_shape(op, operand(op, 0).shape)
    return bounded and all(size is None or size >= 0 for size in sizes)


def _evaluate_pad(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, value = present(inputs[0]), present(inputs[1])
    axes = pad_spreads(op, source.shape)
    if value.size != 1 or min((axis.size for axis in axes), default=0) < 0:
        raise GraphError("a padding does not fit its operands", where=op.name)
    return [spread_out(source, axes, value.reshape(()))]


define(
    OpDef(
        kind="STABLEHLO_PAD",
        attrs=PadAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("* * -> *",),
        infer=lambda op: [TensorType(operand(op, 0).dtype, _pad_shape(op, operand(op, 0).shape))],
        evaluate=_evaluate_pad,
        rules=(
            same_dtypes(0, 1),
            _value_is_single(1),
            when_ranked("lists", _lists_fit, "there must be three amounts for each axis"),
            when_ranked("amounts", _amounts_fit, "amounts between must be 0 up, and leave sizes"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
