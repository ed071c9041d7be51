"""Ops that repeat elements: TILE, BROADCAST_TO, FILL, ZEROS_LIKE, MIRROR_PAD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.checks import one_of
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.layout import paddings
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    count,
    holds_only,
    infer_ranked,
    known_ints,
    listed_sizes,
    operand,
    present,
    same_as_first,
    when_ranked,
)
from circlet.ops.slicing import ints, lists
from circlet.words import counted


def _sizes_not_negative(index: int) -> Rule:
    return Rule(
        "not-negative",
        lambda op: all(value >= 0 for value in known_ints(op.input(index)) or ()),
        "sizes and counts must not be negative",
    )


def _infer_tile(op: Op) -> list[TensorType]:
    data, counts = operand(op, 0), known_ints(op.input(1))
    if counts is None or len(counts) != len(data.shape):
        return [TensorType(data.dtype, (None,) * len(data.shape))]
    sizes = zip(data.shape, counts, strict=True)
    return [TensorType(data.dtype, tuple(None if n is None else n * times for n, times in sizes))]


def _count_per_axis(op: Op) -> bool:
    return operand(op, 1).shape in ((len(operand(op, 0).shape),), (None,))


def _evaluate_tile(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, counts = present(inputs[0]), ints(inputs[1])
    if len(counts) != data.ndim or min(counts, default=0) < 0:
        raise GraphError(f"TILE cannot repeat {data.shape} by {counts}", where=op.name)
    if 0 in counts:  # numpy repeats the other axes before it drops all
        return [
            np.empty([n * times for n, times in zip(data.shape, counts, strict=True)], data.dtype)
        ]
    return [np.tile(data, counts) if counts else data]


register(
    OpDef(
        kind="TILE",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *"),
        infer=infer_ranked(_infer_tile),
        evaluate=_evaluate_tile,
        identity=holds_only(1, 1),
        shape_inputs=(1,),
        rules=(
            lists(1),
            _sizes_not_negative(1),
            when_ranked("counts", _count_per_axis, "there must be one count per axis"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def _sizes_of_list(op: Op, index: int) -> Shape:
    """The sizes an operand lists, or as many unknown ones, or those the output states."""
    sizes = listed_sizes(op, index)
    return op.outputs[0].shape if sizes is None else sizes


def _infer_broadcast_to(op: Op) -> list[TensorType]:
    return [TensorType(operand(op, 0).dtype, _sizes_of_list(op, 1))]


def _spreads(op: Op) -> bool:
    sizes, data = known_ints(op.input(1)), operand(op, 0).shape
    if sizes is None:
        return True
    spread = broadcast_shape(data, sizes)
    return spread is not None and len(spread) == len(sizes) and _within(spread, sizes)


def _within(spread: Shape, sizes: Shape) -> bool:
    return all(a == b or a is None for a, b in zip(spread, sizes, strict=True))


def _evaluate_broadcast_to(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, sizes = present(inputs[0]), ints(inputs[1])
    try:
        return [np.broadcast_to(data, sizes).copy()]
    except ValueError as error:
        raise GraphError(
            f"BROADCAST_TO cannot spread {data.shape} to {sizes}", where=op.name, why=str(error)
        ) from None


register(
    OpDef(
        kind="BROADCAST_TO",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *"),
        infer=infer_ranked(_infer_broadcast_to),
        evaluate=_evaluate_broadcast_to,
        identity=lambda op: None not in operand(op, 0).shape,
        shape_inputs=(1,),
        rules=(
            lists(1),
            _sizes_not_negative(1),
            when_ranked("sizes", _spreads, "the input's sizes must be 1 or those asked for"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


def _infer_fill(op: Op) -> list[TensorType]:
    return [TensorType(operand(op, 1).dtype, _sizes_of_list(op, 0))]


def _value_is_one(op: Op) -> bool:
    return count(operand(op, 1).shape) in (1, None)


def _evaluate_fill(op: Op, inputs: Arrays) -> list[np.ndarray]:
    sizes, value = ints(inputs[0]), present(inputs[1])
    if value.size != 1 or min(sizes, default=0) < 0:
        raise GraphError(
            f"FILL cannot make {sizes} of {counted(value.size, 'value')}", where=op.name
        )
    return [np.full(sizes, value.reshape(-1)[0], value.dtype)]


register(
    OpDef(
        kind="FILL",
        arity=(2, 2),
        required=2,
        dtypes=("INT32 * -> *", "INT64 * -> *"),
        infer=_infer_fill,
        evaluate=_evaluate_fill,
        rules=(
            lists(0),
            _sizes_not_negative(0),
            Rule("value", _value_is_one, "the value to fill with must be one element"),
        ),
    )
)

register(
    OpDef(
        kind="ZEROS_LIKE",
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32", "INT32 -> INT32", "INT64 -> INT64"),
        infer=infer_ranked(same_as_first),
        evaluate=lambda op, inputs: [np.zeros_like(present(inputs[0]))],
    )
)


@dataclass(frozen=True)
class MirrorPadAttrs:
    """REFLECT leaves out the edge element, SYMMETRIC repeats it."""

    mode: str = "REFLECT"


def _infer_mirror_pad(op: Op) -> list[TensorType]:
    data, amounts = operand(op, 0), paddings(op)
    if amounts is None or len(amounts) != len(data.shape):
        return [TensorType(data.dtype, (None,) * len(data.shape))]
    pairs = zip(data.shape, amounts, strict=True)
    return [TensorType(data.dtype, tuple(None if n is None else n + sum(pad) for n, pad in pairs))]


def _pair_per_axis(op: Op) -> bool:
    return operand(op, 1).shape in ((len(operand(op, 0).shape), 2), (None, 2))


def _reaches(op: Op) -> bool:
    amounts, sizes = paddings(op), operand(op, 0).shape
    if amounts is None:
        return True
    pairs = zip(sizes, amounts, strict=True)
    return all(size is None or _pad_fits(op, size, pad) for size, pad in pairs)


def _pad_fits(op: Op, size: int, pad: tuple[int, int]) -> bool:
    most = size - (op.attributes(MirrorPadAttrs).mode == "REFLECT")
    return min(pad) >= 0 and (max(pad) <= most or max(pad) == 0)


def _pairs(amounts: np.ndarray | None) -> list[tuple[int, int]]:
    return [(int(before), int(after)) for before, after in present(amounts).reshape(-1, 2)]


def _evaluate_mirror_pad(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, amounts = present(inputs[0]), _pairs(inputs[1])
    pairs = list(zip(data.shape, amounts, strict=False))
    if len(amounts) != data.ndim or not all(_pad_fits(op, size, pad) for size, pad in pairs):
        raise GraphError(f"MIRROR_PAD cannot pad {data.shape} by {amounts}", where=op.name)
    if not amounts:
        return [data]
    symmetric = op.attributes(MirrorPadAttrs).mode == "SYMMETRIC"
    return [np.pad(data, amounts, "symmetric" if symmetric else "reflect")]


register(
    OpDef(
        kind="MIRROR_PAD",
        attrs=MirrorPadAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *"),
        infer=infer_ranked(_infer_mirror_pad),
        evaluate=_evaluate_mirror_pad,
        identity=holds_only(1, 0),
        shape_inputs=(1,),
        rules=(
            one_of("mode", ("REFLECT", "SYMMETRIC")),
            when_ranked("paddings", _pair_per_axis, "there must be one pair per axis"),
            when_ranked("reach", _reaches, "an axis cannot be padded by more than it holds"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
