"""Operators that find rows, as many as a run counts, over tensors with room for all of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from circlet.backends.cpu.bounds import Bounds, NotBoundError, listed
from circlet.ir import DType, Op, Tensor
from circlet.ops.bounded import (
    COUNTS,
    FIRST,
    INVERSE,
    LIMIT,
    LIMITED,
    PROPOSALS,
    PROPOSED,
    SUPPRESSED,
    SUPPRESSION,
    TOP_K,
    UNIQUE,
    WHERE,
    DistinctAttrs,
    WhereAttrs,
    count_tensor,
)
from circlet.ops.gather import GatherAttrs
from circlet.ops.onnx.record import attributes
from circlet.ops.operands import operand
from circlet.ops.quantize import CastAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.plan.found_sizes import THINNED, compressed_axis, is_of_slices
from circlet.plan.sizes import PRODUCT, Numbers, Size, bounds_of, is_open, leads, most_of

Bind = Callable[[Op, Bounds], None]


def _bind_where(op: Op, bounds: Bounds) -> None:
    condition = operand(op, 0)
    sizes = bounds.sizes(condition)
    if not sizes or (is_open(sizes) and not leads(sizes)):
        raise NotBoundError("it looks along an inner axis whose size depends on the data")
    inputs = [bounds.tensor(condition), _only_count(sizes, op, bounds)]
    _bind_found(op, bounds, WHERE, inputs, WhereAttrs())


def _only_count(sizes: Numbers, op: Op, bounds: Bounds) -> Tensor | None:
    """The count of the one size that is open; None where none is."""
    given = next((size for size in sizes if isinstance(size, Size)), None)
    return None if given is None else bounds.count(given, op)


def _bind_unique(op: Op, bounds: Bounds) -> None:
    """TFLite's: in the order in which elements first stand there."""
    given = operand(op, 0)
    count = _only_count(bounds.sizes(given), op, bounds)
    inputs = [bounds.tensor(given), count]
    _bind_found(op, bounds, UNIQUE, inputs, DistinctAttrs(False, (INVERSE,)))


def _bind_distinct(op: Op, bounds: Bounds) -> None:
    """ONNX's: of all elements, in either order."""
    if is_of_slices(op):
        raise NotBoundError("it compares slices along an axis, not elements")
    given, sizes = operand(op, 0), bounds.sizes(operand(op, 0))
    total = bounds.table.joined(PRODUCT, sizes)
    if total is None or (is_open(sizes) and not leads(sizes)):
        raise NotBoundError("it looks along an inner axis whose size depends on the data")
    count = bounds.count(total, op) if isinstance(total, Size) else None
    flat = bounds.tensor(given)
    if len(sizes) != 1:
        whole = flat.like(f"{op.name} (flat)")
        whole.shape = (flat.elements,)
        bounds.add(op, "RESHAPE", [flat], ReshapeAttrs(whole.shape), [whole])
        flat = whole
    results = (FIRST, INVERSE, COUNTS)[: len(op.outputs) - 1]
    attrs = DistinctAttrs(bool(attributes(op).get("sorted", 1)), results)
    _bind_found(op, bounds, UNIQUE, [flat, count], attrs)


def _bind_found(
    op: Op, bounds: Bounds, kind: str, inputs: list[Tensor | None], attrs: object = None
) -> None:
    """An op that finds out how many rows its first result has."""
    results = [bounds.tensor(tensor) for tensor in op.outputs]
    (size, *_), found = bounds.sizes(op.outputs[0]), count_tensor(f"{op.name} (size)")
    bounds.add(op, kind, inputs, attrs or op.attrs, [*results, found])
    if isinstance(size, Size):
        bounds.find(size, found)


def _bind_compress(op: Op, bounds: Bounds) -> None:
    """The places of the flags that are set, and a GATHER of them."""
    data, flags, axis = operand(op, 0), operand(op, 1), compressed_axis(op)
    sizes, wanted = bounds.sizes(data), bounds.sizes(flags)
    whole = prod(map(most_of, sizes)) if axis is None else sizes[axis]
    if is_open(wanted) or isinstance(whole, Size) or (axis is None and is_open(sizes)):
        raise NotBoundError("how many places it chooses among depends on the data of a run")
    if most_of(wanted[0]) > whole:
        raise NotBoundError("it has more flags than there are places")
    (size,) = [s for s in bounds.sizes(op.outputs[0]) if s not in sizes]
    room, found = most_of(size), count_tensor(f"{op.name} (size)")
    rows, places = (Tensor(op.name, DType.INT64, shape) for shape in ((room, 1), (room,)))
    bounds.add(op, WHERE, [flags, None], WhereAttrs(), [rows, found])
    bounds.find(size, found)
    bounds.add(op, "RESHAPE", [rows], ReshapeAttrs((room,)), [places])
    given = bounds.tensor(data)
    if axis is None and len(sizes) != 1:
        flat = Tensor(data.name, data.dtype, (whole,), data.quant)
        bounds.add(op, "RESHAPE", [given], ReshapeAttrs((whole,)), [flat])
        given = flat
    result = bounds.tensor(op.outputs[0])
    bounds.add(op, "GATHER", [given, places], GatherAttrs(axis or 0), [result])


def _bind_suppression(op: Op, bounds: Bounds) -> None:
    boxes, scores = (bounds.sizes(operand(op, index)) for index in (0, 1))
    if boxes[1] != scores[2] or is_open(boxes[:1] + scores[:2]):
        raise NotBoundError("how many batches, classes or boxes fit depends on the data")
    given = [op.input(index) for index in range(5)]
    inputs = [None if tensor is None else bounds.tensor(tensor) for tensor in given]
    count = bounds.count(boxes[1], op) if isinstance(boxes[1], Size) else None
    _bind_found(op, bounds, SUPPRESSION, [*inputs, count])


def _bind_thinned(op: Op, bounds: Bounds) -> None:
    """Rows in the order in which they are chosen: more than are asked for come behind those."""
    scores, found = bounds.tensor(operand(op, 1)), op.outputs[-1]
    (boxes,), wanted = bounds.sizes(operand(op, 1)), bounds.table.elements(op.input(2))
    if wanted is None or found not in bounds.table.numbers:
        raise NotBoundError("nothing bounds how many boxes may come out")
    if isinstance(boxes, Size):
        scores = bounds.filled(op, scores, 0, boxes, -np.inf)
    inputs = [bounds.tensor(operand(op, 0)), scores, listed(op, bounds_of(wanted)), *op.inputs[3:]]
    chosen, count = found.like(f"{op.name} (chosen)"), count_tensor(f"{op.name} (size)")
    results = [bounds.tensor(each) for each in op.outputs[:-1]]
    bounds.repeat(op, inputs=inputs, outputs=[*results, chosen])
    cast = CastAttrs(found.dtype.name, "INT64")
    bounds.add(op, "CAST", [chosen], cast, [count])
    (number,) = bounds.table.numbers[found]
    terms = number.terms if isinstance(number, Size) else ()
    bounds.find(next((term for term in terms if term is not wanted[0]), number), count)
    bounds.add_list(op, (number,), found)


def _bind_top_k(op: Op, bounds: Bounds) -> None:
    data, (values, places) = operand(op, 0), op.outputs
    sizes, kept = bounds.sizes(data), bounds.sizes(values)[-1]
    if op.kind == "CUSTOM":
        _check_largest_last(op, len(sizes))
    columns = bounds.count(sizes[-1], op) if isinstance(sizes[-1], Size) else None
    result = bounds.tensor(places)
    found = result.like() if result.dtype is DType.INT64 else result
    found.dtype = DType.INT32 if result.dtype is DType.INT64 else result.dtype
    inputs = [bounds.tensor(data), columns, bounds.count(kept, op)]
    bounds.add(op, TOP_K, inputs, op.attrs, [bounds.tensor(values), found])
    if found is not result:
        bounds.add(op, "CAST", [found], CastAttrs("INT32", "INT64"), [result])


def _check_largest_last(op: Op, rank: int) -> None:
    attrs = attributes(op)
    if attrs.get("axis", -1) not in (-1, rank - 1) or not attrs.get("largest", 1):
        raise NotBoundError("it is not the largest of the last axis that are wanted")


def _bind_limited(op: Op, bounds: Bounds) -> None:
    count = _only_count(bounds.sizes(operand(op, 0)), op, bounds)
    _bind_found(
        op, bounds, LIMIT, [*(bounds.tensor(operand(op, index)) for index in range(3)), count]
    )


def _bind_proposed(op: Op, bounds: Bounds) -> None:
    _bind_found(op, bounds, PROPOSALS, [bounds.tensor(operand(op, index)) for index in range(4)])


FINDERS: dict[str, Bind] = {
    "WHERE": _bind_where,
    "UNIQUE": _bind_unique,
    "CUSTOM:onnx.Unique": _bind_distinct,
    SUPPRESSED: _bind_suppression,
    **dict.fromkeys(THINNED, _bind_thinned),
    LIMITED: _bind_limited,
    PROPOSED: _bind_proposed,
    "CUSTOM:onnx.Compress": _bind_compress,
    "CUSTOM:onnx.TopK": _bind_top_k,
    "TOPK_V2": _bind_top_k,
}
