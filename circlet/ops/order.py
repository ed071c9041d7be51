"""Ops along one axis in order: REVERSE_V2, REVERSE_SEQUENCE, CUMSUM, TOPK_V2, ONE_HOT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    count,
    infer_ranked,
    known_ints,
    moves_bytes,
    operand,
    present,
    same_as_first,
    when_ranked,
)
from circlet.ops.parts import by_rows, stable_order
from circlet.ops.slicing import ints
from circlet.ops.split import from_front
from circlet.words import counted

_SORT_WORK = 8  # of an element, in visits
_NUMBERS = ("FLOAT32", "FLOAT64", "INT8", "UINT8", "INT16", "INT32", "INT64")


def reversed_axes(op: Op) -> tuple[int, ...] | None:
    """The axes a REVERSE_V2 turns round, counted from the front; None until a run."""
    axes, rank = known_ints(op.input(1)), len(operand(op, 0).shape)
    return None if axes is None else tuple(from_front(axis, rank) for axis in axes)


def _axes_exist(op: Op) -> bool:
    axes, rank = reversed_axes(op), len(operand(op, 0).shape)
    return axes is None or (len(set(axes)) == len(axes) and all(0 <= a < rank for a in axes))


def _evaluate_reverse(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data = present(inputs[0])
    axes = [from_front(axis, data.ndim) for axis in ints(inputs[1])]
    if len(set(axes)) != len(axes) or not all(0 <= axis < data.ndim for axis in axes):
        raise GraphError(f"REVERSE_V2 has no axes {axes} in {data.shape}", where=op.name)
    return [np.flip(data, tuple(axes)).copy()]


register(
    OpDef(
        kind="REVERSE_V2",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *",),
        infer=infer_ranked(same_as_first),
        evaluate=_evaluate_reverse,
        rules=(when_ranked("axes", _axes_exist, "each axis must exist and be named once"),),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class ReverseSequenceAttrs:
    """The axis to turn round, and the axis of the lengths."""

    seq_dim: int = 0
    batch_dim: int = 0


def sequence_axes(op: Op, rank: int) -> tuple[int, int]:
    """(axis to turn round, axis of the lengths), counted from the front."""
    attrs = op.attributes(ReverseSequenceAttrs)
    seq, batch = attrs.seq_dim, attrs.batch_dim
    return from_front(seq, rank), from_front(batch, rank)


def _sequence_axes_fit(op: Op) -> bool:
    shape, lengths = operand(op, 0).shape, operand(op, 1).shape
    seq, batch = sequence_axes(op, len(shape))
    if seq == batch or not (0 <= seq < len(shape) and 0 <= batch < len(shape)):
        return False
    return len(lengths) == 1 and (lengths[0] == shape[batch] or None in (lengths[0], shape[batch]))


def _evaluate_reverse_sequence(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, lengths = present(inputs[0]), ints(inputs[1])
    seq, batch = sequence_axes(op, data.ndim)
    exists = seq != batch and 0 <= seq < data.ndim and 0 <= batch < data.ndim
    if not exists or len(lengths) != data.shape[batch]:
        why = f"axes {seq} and {batch} of {data.shape}, {counted(len(lengths), 'length')}"
        raise GraphError("REVERSE_SEQUENCE's operands do not fit", where=op.name, why=why)
    result = data.copy()
    turned, source = (np.moveaxis(array, (batch, seq), (0, 1)) for array in (result, data))
    for row, length in enumerate(lengths):
        look()
        n = min(max(length, 0), data.shape[seq])
        turned[row, :n] = source[row, :n][::-1]
    return [result]


register(
    OpDef(
        kind="REVERSE_SEQUENCE",
        attrs=ReverseSequenceAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *", "* INT64 -> *"),
        infer=infer_ranked(same_as_first),
        evaluate=_evaluate_reverse_sequence,
        rules=(
            when_ranked("axes", _sequence_axes_fit, "both axes must exist, one length per batch"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class CumsumAttrs:
    """Whether an element leaves itself out, and whether sums run from the end."""

    exclusive: bool = False
    reverse: bool = False


def one_integer(index: int, name: str) -> Rule:
    """Rule: input `index` is one INT32 or INT64."""

    def holds(op: Op) -> bool:
        tensor = operand(op, index)
        types = (DType.INT32, DType.INT64)
        return tensor.dtype in types and count(tensor.shape) in (1, None)

    return Rule(f"{name}-input", holds, f"the {name} must be one integer")


def only_axis(op: Op, index: int, rank: int) -> int | None:
    """The one axis that a constant input names, counted from the front; None until a run."""
    axes = known_ints(op.input(index))
    return None if axes is None or len(axes) != 1 else from_front(axes[0], rank)


def _axis_exists(op: Op) -> bool:
    rank = len(operand(op, 0).shape)
    axis = only_axis(op, 1, rank)
    return axis is None or 0 <= axis < rank


def _evaluate_cumsum(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, axes = present(inputs[0]), ints(inputs[1])
    axis = from_front(axes[0], data.ndim) if len(axes) == 1 else -1
    if not 0 <= axis < data.ndim:
        raise GraphError(f"CUMSUM has no axis {axes} in {data.shape}", where=op.name)
    is_reverse = op.attributes(CumsumAttrs).reverse
    source = np.flip(data, axis) if is_reverse else data
    sums = np.cumsum(source, axis, dtype=data.dtype)
    if op.attributes(CumsumAttrs).exclusive:
        sums = np.roll(sums, 1, axis)
        np.moveaxis(sums, axis, 0)[:1] = 0
    return [(np.flip(sums, axis) if is_reverse else sums).copy()]


register(
    OpDef(
        kind="CUMSUM",
        attrs=CumsumAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("FLOAT32 INT32 -> FLOAT32", "INT32 INT32 -> INT32", "INT64 INT32 -> INT64"),
        infer=infer_ranked(same_as_first),
        evaluate=_evaluate_cumsum,
        rules=(
            one_integer(1, "axis"),
            when_ranked("axis", _axis_exists, "the axis must exist"),
        ),
    )
)


def top_count(op: Op) -> int | None:
    """How many elements a TOPK_V2 keeps; None until a run."""
    values = known_ints(op.input(1))
    return values[0] if values is not None and len(values) == 1 else None


def _infer_top(op: Op) -> list[TensorType]:
    data, kept = operand(op, 0), top_count(op)
    shape = (*data.shape[:-1], kept)
    return [TensorType(data.dtype, shape), TensorType(op.outputs[1].dtype, shape)]


def _keeps_some(op: Op) -> bool:
    shape, kept = operand(op, 0).shape, top_count(op)
    if not shape:
        return False
    return kept is None or (kept >= 0 and (shape[-1] is None or kept <= shape[-1]))


def _evaluate_top(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, kept = present(inputs[0]), ints(inputs[1])
    if data.ndim == 0 or len(kept) != 1 or not 0 <= kept[0] <= data.shape[-1]:
        raise GraphError(f"TOPK_V2 cannot keep {kept} of {data.shape}", where=op.name)
    index_type = op.outputs[1].dtype.numpy
    return by_rows(lambda rows: _top_of_rows(rows, kept[0], index_type), data, _SORT_WORK)


def _top_of_rows(data: np.ndarray, kept: int, index_type: npt.DTypeLike) -> list[np.ndarray]:
    falling = -data if data.dtype.kind == "f" else ~data
    if data.size == data.shape[-1]:
        order = stable_order(falling.reshape(-1)).reshape(data.shape)
    else:
        order = np.argsort(falling, axis=-1, kind="stable")
    best = order[..., :kept]
    return [np.take_along_axis(data, best, -1), best.astype(index_type)]


def _top_cost(op: Op) -> Cost:
    """A heap or a sort of each row."""
    data = operand(op, 0)
    depth = (data.static_shape[-1] if data.shape else 1).bit_length()
    return Cost(bytes=moves_bytes(op).bytes, operations=data.elements * depth)


register(
    OpDef(
        kind="TOPK_V2",
        arity=(2, 2),
        required=2,
        outputs=2,
        dtypes=tuple(f"{name} INT32 -> {name}" for name in _NUMBERS),
        infer=infer_ranked(_infer_top),
        evaluate=_evaluate_top,
        rules=(
            one_integer(1, "count"),
            Rule(
                "index-type",
                lambda op: op.outputs[1].dtype in (DType.INT32, DType.INT16),
                "indices must be INT32 or INT16",
            ),
            when_ranked("count", _keeps_some, "the count must be at most the last size"),
        ),
        quant=QuantRule(same_as_input=True),
        cost=_top_cost,
    )
)


@dataclass(frozen=True)
class OneHotAttrs:
    """Where the new axis goes; -1 is behind all others."""

    axis: int = 0


def one_hot_axis(op: Op, rank: int) -> int:
    """The new axis counted from the front, for indices of a rank."""
    axis = op.attributes(OneHotAttrs).axis
    return rank if axis == -1 else axis


def _infer_one_hot(op: Op) -> list[TensorType]:
    indices, depths = operand(op, 0), known_ints(op.input(1))
    axis = one_hot_axis(op, len(indices.shape))
    depth = depths[0] if depths is not None and len(depths) == 1 else None
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return [TensorType(operand(op, 2).dtype, shape)]


def _one_hot_fits(op: Op) -> bool:
    rank, depths = len(operand(op, 0).shape), known_ints(op.input(1))
    return 0 <= one_hot_axis(op, rank) <= rank and all(depth >= 0 for depth in depths or ())


def _values_are_single(op: Op) -> bool:
    on, off = operand(op, 2), operand(op, 3)
    single = count(on.shape) in (1, None) and count(off.shape) in (1, None)
    return single and on.dtype is off.dtype is op.outputs[0].dtype


def _evaluate_one_hot(op: Op, inputs: Arrays) -> list[np.ndarray]:
    indices, depths = present(inputs[0]), ints(inputs[1])
    on, off = present(inputs[2]).reshape(-1), present(inputs[3]).reshape(-1)
    axis = one_hot_axis(op, indices.ndim)
    single = len(depths) == on.size == off.size == 1 and depths[0] >= 0
    if not single or not 0 <= axis <= indices.ndim:
        raise GraphError(f"ONE_HOT cannot spread {indices.shape} by {depths}", where=op.name)
    places = np.arange(depths[0]).reshape(-1, *(1,) * (indices.ndim - axis))
    return [np.where(np.expand_dims(indices, axis) == places, on[0], off[0])]


register(
    OpDef(
        kind="ONE_HOT",
        attrs=OneHotAttrs,
        arity=(4, 4),
        required=4,
        dtypes=tuple(
            f"{index} INT32 {value} {value} -> {value}"
            for index in ("INT32", "INT64")
            for value in ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL")
        ),
        infer=infer_ranked(_infer_one_hot),
        evaluate=_evaluate_one_hot,
        rules=(
            one_integer(1, "depth"),
            Rule("values", _values_are_single, "both values must be one element of one type"),
            when_ranked("axis", _one_hot_fits, "the new axis must lie within the new rank"),
        ),
    )
)
