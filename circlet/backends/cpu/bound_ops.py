"""For each kind of operator, the operators over bounds that stand for it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from circlet.backends.cpu.bound_branches import bind_if
from circlet.backends.cpu.bound_scatters import bind_scatter
from circlet.backends.cpu.bounds import Bounds, NotBoundError, needs_bounds
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.bounded import (
    CONCATENATION,
    SUPPRESSED,
    SUPPRESSION,
    TAIL,
    TOP_K,
    UNIQUE,
    WHERE,
    AxisAttrs,
    TailAttrs,
    count_tensor,
)
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import concatenation_axis
from circlet.ops.onnx.record import attributes
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import constant_axes
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.plan.size_probes import given_sizes, inferred, passing
from circlet.plan.size_rules import SCATTERS, THINNED, compressed_axis, is_pointwise, strided_parts
from circlet.plan.sizes import Numbers, Size, bounds_of, is_open, most_of

Bind = Callable[[Op, Bounds], None]


def bind(op: Op, bounds: Bounds) -> None:
    """Append what stands for an op to the ops of the bounds.

    Raises:
        NotBoundError: There is no way, or it lacks a bound or a count.
    """
    if not needs_bounds(op, bounds.table):
        bounds.done.append(op)
        for tensor in op.outputs:
            bounds.note(tensor)
        return
    if op.outputs[0] in bounds.table.numbers:
        bounds.add_list(op, bounds.table.numbers[op.outputs[0]], op.outputs[0])
        return
    found = _KINDS.get(op.label) or (_repeat if is_pointwise(op) else _bind_probed)
    found(op, bounds)


def _repeat(op: Op, bounds: Bounds) -> None:
    bounds.repeat(op)


def _bind_probed(op: Op, bounds: Bounds) -> None:
    """As the op is; where it looks behind counts, at what changes nothing."""
    found, listed = passing(op), given_sizes(op, bounds.table)
    if found is None:
        raise NotBoundError("a shape depends on the data of a run")
    if inferred(op, bounds.table) != [bounds.tensor(t).static_shape for t in op.outputs]:
        raise NotBoundError("bounds of its sizes do not follow from each other")
    inputs: list[Tensor | None] = []
    for index, tensor in enumerate(op.inputs):
        given = None if tensor is None else listed.get(index) or bounds.tensor(tensor)
        for axis, value in found.get(index, {}).items():
            size = bounds.sizes(operand(op, index))[axis]
            if given is not None and value is not None and isinstance(size, Size):
                given = _filled(op, given, axis, size, value, bounds)
        inputs.append(given)
    bounds.repeat(op, inputs=inputs)


def _filled(
    op: Op, given: Tensor, axis: int, size: Size, value: int | float, bounds: Bounds
) -> Tensor:
    """A tensor with one value behind the count of an axis."""
    made = given.like(f"{op.name} (filled)")
    count = bounds.count(size, op)
    bounds.add(op, TAIL, [given, count], TailAttrs(axis, value), [made])
    return made


def _bind_reshape(op: Op, bounds: Bounds) -> None:
    """Places keep their order in memory: open axes stay as they are, or one leads both lists."""
    source, result = operand(op, 0), op.outputs[0]
    before, after = bounds.sizes(source), bounds.sizes(result)
    kept = [size for size in before if size != 1] == [size for size in after if size != 1]
    if not kept and not (_leads(before) and _leads(after)):
        raise NotBoundError("it moves elements across an axis whose size depends on the data")
    given, made = bounds.tensor(source), bounds.tensor(result)
    if given.elements != made.elements:
        raise NotBoundError("bounds of its sizes do not hold equally many elements")
    bounds.add(op, "RESHAPE", [given], ReshapeAttrs(made.static_shape), [made])


def _leads(sizes: Numbers) -> bool:
    """Whether one axis is open, and those in front of it have one place each."""
    rest = [size for size in sizes if size != 1]
    return bool(rest) and isinstance(rest[0], Size) and not is_open(tuple(rest[1:]))


def _list(op: Op, values: Numbers) -> Tensor:
    return constant(f"{op.name} (sizes)", np.array(values, np.int32))


def _bind_fill(op: Op, bounds: Bounds) -> None:
    result = bounds.tensor(op.outputs[0])
    bounds.repeat(op, inputs=[_list(op, result.static_shape), operand(op, 1)])


def _bind_broadcast(op: Op, bounds: Bounds) -> None:
    source, result = bounds.sizes(operand(op, 0)), bounds.sizes(op.outputs[0])
    spread = zip(reversed(source), reversed(result), strict=False)
    if any(own != 1 and own is not wide and own != wide for own, wide in spread):
        raise NotBoundError("only a run says whether it repeats elements")
    sizes = _list(op, bounds_of(result))
    bounds.repeat(op, inputs=[bounds.tensor(operand(op, 0)), sizes])


def _bind_strided_slice(op: Op, bounds: Bounds) -> None:
    source = bounds.tensor(operand(op, 0))
    parts = strided_parts(op, bounds.table)
    if parts is None:
        raise NotBoundError("only a run says from where on it takes elements")
    whole = source.static_shape
    ends = [min(most_of(part.last), size) for part, size in zip(parts, whole, strict=True)]
    lists = ([part.first for part in parts], ends, [part.step for part in parts])
    dropped = sum(1 << axis for axis, part in enumerate(parts) if part.is_dropped)
    rows = zip(parts, ends, strict=True)
    taken = tuple(-((p.first - end) // p.step) for p, end in rows if not p.is_dropped)
    if taken != bounds.tensor(op.outputs[0]).static_shape:
        raise NotBoundError("it may take nothing at all")
    inputs = [source, *(_list(op, tuple(each)) for each in lists)]
    bounds.repeat(op, inputs=inputs, attrs=StridedSliceAttrs(shrink_axis_mask=dropped))


def _bind_slice(op: Op, bounds: Bounds) -> None:
    sizes = _list(op, bounds.tensor(op.outputs[0]).static_shape)
    begin = _list(op, tuple(np.asarray(operand(op, 1).data).reshape(-1).tolist()))
    bounds.repeat(op, inputs=[bounds.tensor(operand(op, 0)), begin, sizes])


def _bind_concatenation(op: Op, bounds: Bounds) -> None:
    parts, axis = [tensor for tensor in op.inputs if tensor is not None], concatenation_axis(op)
    result = bounds.tensor(op.outputs[0])
    if not isinstance(bounds.sizes(op.outputs[0])[axis], Size):
        bounds.repeat(op)
        return
    if prod(result.static_shape[:axis]) != 1:
        raise NotBoundError("it joins parts along an inner axis whose size depends on the data")
    if any(part.quant is not None and not part.quant.same_as(result.quant) for part in parts):
        raise NotBoundError("it rescales parts whose sizes depend on the data of a run")
    counts = [bounds.count(bounds.sizes(part)[axis], op) for part in parts]
    inputs = [*map(bounds.tensor, parts), *counts]
    bounds.add(op, CONCATENATION, inputs, AxisAttrs(axis), [result])


_NEUTRAL = {"REDUCE_MAX": -1, "REDUCE_MIN": 1, "SUM": 0, "REDUCE_ANY": 0, "REDUCE_ALL": 1}


def _bind_reduction(op: Op, bounds: Bounds) -> None:
    """What lies behind the counts of reduced axes becomes what changes no result."""
    source, axes = operand(op, 0), constant_axes(op)
    if axes is None:
        raise NotBoundError("the axes are not constant")
    sizes, given = bounds.sizes(source), bounds.tensor(source)
    for axis in axes:
        size = sizes[axis]
        if isinstance(size, Size):
            given = _filled(op, given, axis, size, _neutral(op, source.dtype), bounds)
    bounds.repeat(op, inputs=[given, *op.inputs[1:]])


def _neutral(op: Op, dtype: DType) -> int | float:
    """What changes no result of a reduction."""
    if op.kind not in _NEUTRAL or (op.kind == "SUM" and operand(op, 0).quant is not None):
        raise NotBoundError("it divides by, or scales with, a size that depends on the data")
    sign = _NEUTRAL[op.kind]
    if op.kind not in ("REDUCE_MAX", "REDUCE_MIN"):
        return sign
    if not dtype.is_integer:
        return sign * float("inf")
    limits = np.iinfo(np.dtype(dtype.numpy).name)
    return int(limits.max if sign > 0 else limits.min)


def _bind_where(op: Op, bounds: Bounds) -> None:
    condition = operand(op, 0)
    sizes = bounds.sizes(condition)
    if not sizes or (is_open(sizes) and not _leads(sizes)):
        raise NotBoundError("it looks along an inner axis whose size depends on the data")
    _bind_found(op, bounds, WHERE, [bounds.tensor(condition), _only_count(sizes, op, bounds)])


def _only_count(sizes: Numbers, op: Op, bounds: Bounds) -> Tensor | None:
    """The count of the one size that is open; None where none is."""
    given = next((size for size in sizes if isinstance(size, Size)), None)
    return None if given is None else bounds.count(given, op)


def _bind_unique(op: Op, bounds: Bounds) -> None:
    given = operand(op, 0)
    count = _only_count(bounds.sizes(given), op, bounds)
    _bind_found(op, bounds, UNIQUE, [bounds.tensor(given), count])


def _bind_found(op: Op, bounds: Bounds, kind: str, inputs: list[Tensor | None]) -> None:
    """An op that finds out how many rows its first result has."""
    results = [bounds.tensor(tensor) for tensor in op.outputs]
    (size, *_), found = bounds.sizes(op.outputs[0]), count_tensor(f"{op.name} (size)")
    bounds.add(op, kind, inputs, op.attrs, [*results, found])
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
    bounds.add(op, WHERE, [flags, None], NoAttrs(), [rows, found])
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
        scores = _filled(op, scores, 0, boxes, -np.inf, bounds)
    inputs = [bounds.tensor(operand(op, 0)), scores, _list(op, bounds_of(wanted)), *op.inputs[3:]]
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


_KINDS: dict[str, Bind] = {
    "IF": bind_if,
    **dict.fromkeys(("GATHER", "GATHER_ND", "TRANSPOSE", "PACK"), _repeat),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _bind_reshape),
    "FILL": _bind_fill,
    "BROADCAST_TO": _bind_broadcast,
    "STRIDED_SLICE": _bind_strided_slice,
    "SLICE": _bind_slice,
    "CONCATENATION": _bind_concatenation,
    **dict.fromkeys((*_NEUTRAL, "MEAN"), _bind_reduction),
    "WHERE": _bind_where,
    "UNIQUE": _bind_unique,
    **dict.fromkeys(SCATTERS, bind_scatter),
    SUPPRESSED: _bind_suppression,
    **dict.fromkeys(THINNED, _bind_thinned),
    "CUSTOM:onnx.Compress": _bind_compress,
    "CUSTOM:onnx.TopK": _bind_top_k,
    "TOPK_V2": _bind_top_k,
}
