"""Kinds over tensors that have room for every run, of which a run fills as much as it needs.

How many places of an axis are filled, from its start on, is a count: one INT64. What lies behind
them is undefined. No file holds these kinds: a backend that compiles code for fixed sizes puts them
in the place of operators whose sizes depend on the data of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from circlet.errors import LimitError
from circlet.ir import DType, Op, Tensor
from circlet.ops.nnapi.record import NnapiAttrs
from circlet.ops.onnx.movement import distinct
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.opdef import Arrays, Cost, NoAttrs, OpDef, TensorType, get, moves_bytes, register
from circlet.ops.operands import operand, present

SIZE = "BOUNDED_SIZE"
SIZE_LIST = "BOUNDED_SIZE_LIST"
WHERE = "BOUNDED_WHERE"
CONCATENATION = "BOUNDED_CONCATENATION"
TOP_K = "BOUNDED_TOP_K"
TAIL = "BOUNDED_TAIL"
SUPPRESSION = "BOUNDED_SUPPRESSION"
UNIQUE = "BOUNDED_UNIQUE"
LIMIT = "BOUNDED_BOX_LIMIT"
PROPOSALS = "BOUNDED_PROPOSALS"
TURNS = "BOUNDED_TURNS"
FIRST, INVERSE, COUNTS = "first", "inverse", "counts"  # what UNIQUE tells besides
SUPPRESSED = "CUSTOM:onnx.NonMaxSuppression"
LIMITED, PROPOSED = "CUSTOM:nnapi.BOX_WITH_NMS_LIMIT", "CUSTOM:nnapi.GENERATE_PROPOSALS"

_FINDERS = (WHERE, TOP_K, SUPPRESSION, UNIQUE, LIMIT, PROPOSALS)
KINDS = frozenset({SIZE, SIZE_LIST, CONCATENATION, TAIL, TURNS, *_FINDERS})

_PAIR, _QUEUE = 8, 64  # operations of comparing two boxes, and of taking one from a queue
_JOINS: dict[str, Callable[[int, int], int]] = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "least": min,
    "greatest": max,
}


@dataclass(frozen=True)
class SizeAttrs:
    """How a count follows from others: "sum", "product", "least" or "greatest".

    Attributes:
        constant: What they are joined with; None for nothing.
    """

    form: str
    constant: int | None = None


@dataclass(frozen=True)
class SizeListAttrs:
    """The elements of a list of sizes: constants, or the counts of inputs by their place.

    Attributes:
        elements: (whether it is an input, its place or its value) of each.
    """

    elements: tuple[tuple[bool, int], ...]


@dataclass(frozen=True)
class WhereAttrs:
    """Where the numbers of a place stand.

    Attributes:
        is_transposed: Whether in a column; otherwise in a row.
    """

    is_transposed: bool = False


@dataclass(frozen=True)
class AxisAttrs:
    """The axis along which parts follow each other; those in front of it have one place each."""

    axis: int = 0


@dataclass(frozen=True)
class TailAttrs:
    """What stands at the places of an axis behind those that are filled."""

    axis: int
    value: int | float


@dataclass(frozen=True)
class TurnsAttrs:
    """How many turns of a loop there is room for."""

    most: int


@dataclass(frozen=True)
class DistinctAttrs:
    """How distinct elements are listed, and what else is told of them.

    Attributes:
        is_rising: Whether they are sorted; otherwise they stand as they first come.
        results: What comes between the elements and their count: FIRST, INVERSE or COUNTS.
    """

    is_rising: bool
    results: tuple[str, ...]


def count_of(array: np.ndarray | None, most: int) -> int:
    """A count that is no more than there is room for."""
    return most if array is None else min(max(int(array.reshape(-1)[0]), 0), most)


def stated(op: Op) -> list[TensorType]:
    """The outputs as whoever made the op stated them."""
    return [TensorType(tensor.dtype, tensor.shape) for tensor in op.outputs]


def _filled(result: npt.NDArray[np.generic], rows: npt.ArrayLike) -> npt.NDArray[np.generic]:
    rows = np.asarray(rows)
    result[: len(rows)] = rows
    return result


def _empty(tensor: Tensor) -> npt.NDArray[np.generic]:
    return np.zeros(tensor.static_shape, tensor.dtype.numpy)


def _count(number: int) -> np.ndarray:
    return np.array([number], np.int64)


def _size(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs = op.attributes(SizeAttrs)
    numbers = [int(present(array).reshape(-1)[0]) for array in inputs]
    if attrs.constant is not None:
        numbers.append(attrs.constant)
    return [_count(reduce(_JOINS[attrs.form], numbers))]


def _size_list(op: Op, inputs: Arrays) -> list[np.ndarray]:
    result = op.outputs[0]
    found = [
        int(present(inputs[value]).reshape(-1)[0]) if is_input else value
        for is_input, value in op.attributes(SizeListAttrs).elements
    ]
    return [np.array(found, result.dtype.numpy).reshape(result.static_shape)]


def _where(op: Op, inputs: Arrays) -> list[np.ndarray]:
    condition, axis = present(inputs[0]), leading_axis(operand(op, 0))
    count = count_of(inputs[1], condition.shape[axis]) if condition.ndim else 1
    found = np.argwhere(np.take(condition, range(count), axis) if condition.ndim else condition)
    result = _empty(op.outputs[0])
    _filled(result.T if op.attributes(WhereAttrs).is_transposed else result, found)
    return [result, _count(len(found))]


def leading_axis(tensor: Tensor) -> int:
    """The first axis that has more than one place, or the last one."""
    shape = tensor.static_shape
    return next((axis for axis, size in enumerate(shape) if size != 1), max(len(shape) - 1, 0))


def _concatenation(op: Op, inputs: Arrays) -> list[np.ndarray]:
    axis, parts = op.attributes(AxisAttrs).axis, len(inputs) // 2
    filled = [
        np.take(present(part), range(count_of(count, present(part).shape[axis])), axis)
        for part, count in zip(inputs[:parts], inputs[parts:], strict=True)
    ]
    joined, result = np.concatenate(filled, axis), _empty(op.outputs[0])
    np.moveaxis(result, axis, 0)[: joined.shape[axis]] = np.moveaxis(joined, axis, 0)
    return [result]


def _top_k(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, (values, places) = present(inputs[0]), map(_empty, op.outputs)
    given = data[..., : count_of(inputs[1], data.shape[-1])]
    kept = count_of(inputs[2], min(values.shape[-1], given.shape[-1]))
    order = np.argsort(-given if data.dtype.kind == "f" else ~given, axis=-1, kind="stable")
    best = order[..., :kept]
    values[..., :kept], places[..., :kept] = np.take_along_axis(given, best, -1), best
    return [values, places]


def _tail(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, result = op.attributes(TailAttrs), present(inputs[0]).copy()
    along = np.moveaxis(result, attrs.axis, 0)
    along[count_of(inputs[1], len(along)) :] = np.asarray(attrs.value).astype(result.dtype)
    return [result]


def _suppression(op: Op, inputs: Arrays) -> list[np.ndarray]:
    boxes, scores = present(inputs[0]), present(inputs[1])
    count = count_of(inputs[5], boxes.shape[1])
    return _found(op, SUPPRESSED, [boxes[:, :count], scores[:, :, :count], *inputs[2:5]])


def _limit(op: Op, inputs: Arrays) -> list[np.ndarray]:
    count = count_of(inputs[3], len(present(inputs[0])))
    return _found(op, LIMITED, [present(array)[:count] for array in inputs[:3]])


def _proposals(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return _found(op, PROPOSED, inputs)


def _found(op: Op, kind: str, given: Arrays) -> list[np.ndarray]:
    """What a kind finds, in results that have room for more, and how many rows that is."""
    plain = _plain(op, kind, len(given))
    found = get(plain).evaluate(plain, given)
    filled = [_filled(_empty(t), a) for t, a in zip(op.outputs, found, strict=False)]
    return [*filled, _count(len(found[0]))]


def _plain(op: Op, kind: str, inputs: int) -> Op:
    """The op that this one stands for."""
    code = kind.partition(":")[2]
    return replace(
        op, kind="CUSTOM", inputs=op.inputs[:inputs], outputs=op.outputs[:-1], custom_code=code
    )


def _unique(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, data = op.attributes(DistinctAttrs), present(inputs[0])
    values, *told = distinct(data[: count_of(inputs[1], len(data))], None, attrs.is_rising)
    of = dict(zip((FIRST, INVERSE, COUNTS), told, strict=True))
    found = [values, *(of[name] for name in attrs.results)]
    results = [_filled(_empty(t), a) for t, a in zip(op.outputs, found, strict=False)]
    return [*results, _count(len(values))]


def _turns(op: Op, inputs: Arrays) -> list[np.ndarray]:
    flag, number = present(inputs[0]), int(present(inputs[1]).reshape(-1)[0])
    if flag.any() and number >= op.attributes(TurnsAttrs).most:
        raise LimitError("a loop takes more turns than there is room for", where=op.name)
    return [flag]


def _unique_cost(op: Op) -> Cost:
    return get(replace(op, kind="UNIQUE")).cost(op)


def _suppression_cost(op: Op) -> Cost:
    """Each box is compared with those that are kept of its class, several at a time."""
    batches, classes, boxes = operand(op, 1).static_shape
    kept = op.outputs[0].static_shape[0] // max(1, batches * classes)
    each = _QUEUE + _PAIR * min(kept, boxes) // 2
    return Cost(bytes=moves_bytes(op).bytes, operations=batches * classes * boxes * each)


def _limit_cost(op: Op) -> Cost:
    plain = _plain(op, LIMITED, 3)
    return get(plain).cost(plain)


def _proposals_cost(op: Op) -> Cost:
    plain = _plain(op, PROPOSED, 4)
    return get(plain).cost(plain)


def _top_k_cost(op: Op) -> Cost:
    return get(replace(op, kind="TOPK_V2")).cost(op)


def _register(
    kind: str,
    evaluate: Callable[[Op, Arrays], list[np.ndarray]],
    inputs: tuple[int, int],
    attrs: type = NoAttrs,
    outputs: int | None = 1,
    required: int = 1,
    cost: Callable[[Op], Cost] = moves_bytes,
) -> None:
    register(
        OpDef(
            kind=kind,
            attrs=attrs,
            arity=inputs,
            required=required,
            outputs=outputs,
            dtypes=("* -> *",),
            infer=stated,
            evaluate=evaluate,
            cost=cost,
            fused=True,
        )
    )


_MANY = 1 << 17
_register(SIZE, _size, (1, _MANY), SizeAttrs)
_register(SIZE_LIST, _size_list, (0, _MANY), SizeListAttrs, required=0)
_register(WHERE, _where, (2, 2), WhereAttrs, 2)
_register(CONCATENATION, _concatenation, (2, _MANY), AxisAttrs, required=2)
_register(TOP_K, _top_k, (3, 3), outputs=2, cost=_top_k_cost)
_register(TAIL, _tail, (2, 2), TailAttrs, required=2)
_register(UNIQUE, _unique, (2, 2), DistinctAttrs, None, cost=_unique_cost)
_register(SUPPRESSION, _suppression, (6, 6), OnnxAttrs, 2, 2, _suppression_cost)
_register(LIMIT, _limit, (4, 4), NnapiAttrs, 5, 3, _limit_cost)
_register(TURNS, _turns, (2, 2), TurnsAttrs, required=2)
_register(PROPOSALS, _proposals, (4, 4), NnapiAttrs, 4, 4, _proposals_cost)


def count_tensor(name: str) -> Tensor:
    """A tensor for a count."""
    return Tensor(name, DType.INT64, (1,))
