"""For each kind of operator, the operators over bounds that stand for it."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu.bound_branches import bind_if
from circlet.backends.cpu.bound_finders import FINDERS, Bind
from circlet.backends.cpu.bound_loops import bind_while, fitted
from circlet.backends.cpu.bound_scatters import bind_scatter
from circlet.backends.cpu.bounds import Bounds, NotBoundError, listed, needs_bounds
from circlet.ir import DType, Op, Tensor
from circlet.ir.regions import LOOPS
from circlet.ops.bounded import (
    CONCATENATION,
    AxisAttrs,
)
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import concatenation_axis
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.reduce import constant_axes
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.plan.size_probes import given_sizes, inferred, passing
from circlet.plan.size_rules import APPEND, SCATTERS, Taken, is_pointwise, strided_parts
from circlet.plan.sizes import SUM, Number, Size, bounds_of, is_open, leads, most_of


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
    numbers = bounds.table.elements(op.outputs[0])
    if op.kind not in LOOPS and numbers is not None:
        bounds.add_list(op, numbers, op.outputs[0])
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
        sizes, passed = () if tensor is None else bounds.sizes(tensor), found.get(index, {})
        for axis, size in enumerate(sizes):
            if given is None or not isinstance(size, Size):
                continue
            if axis not in passed:
                raise NotBoundError("it looks along an axis whose size depends on the data")
            value = passed[axis]
            if value is not None:
                given = bounds.filled(op, given, axis, size, value)
        inputs.append(given)
    bounds.repeat(op, inputs=inputs)


def _bind_reshape(op: Op, bounds: Bounds) -> None:
    """Places keep their order in memory: open axes stay as they are, or one leads both lists."""
    source, result = operand(op, 0), op.outputs[0]
    before, after = bounds.sizes(source), bounds.sizes(result)
    kept = [size for size in before if size != 1] == [size for size in after if size != 1]
    if is_open(before) and not kept and not (leads(before) and leads(after)):
        raise NotBoundError("it moves elements across an axis whose size depends on the data")
    given, made = bounds.tensor(source), bounds.tensor(result)
    if given.elements != made.elements:
        raise NotBoundError("bounds of its sizes do not hold equally many elements")
    bounds.add(op, "RESHAPE", [given], ReshapeAttrs(made.static_shape), [made])


def _bind_fill(op: Op, bounds: Bounds) -> None:
    result = bounds.tensor(op.outputs[0])
    bounds.repeat(op, inputs=[listed(op, result.static_shape), operand(op, 1)])


def _bind_broadcast(op: Op, bounds: Bounds) -> None:
    source, result = bounds.sizes(operand(op, 0)), bounds.sizes(op.outputs[0])
    spread = zip(reversed(source), reversed(result), strict=False)
    if any(own != 1 and own is not wide and own != wide for own, wide in spread):
        raise NotBoundError("only a run says whether it repeats elements")
    sizes = listed(op, bounds_of(result))
    bounds.repeat(op, inputs=[bounds.tensor(operand(op, 0)), sizes])


def _bind_strided_slice(op: Op, bounds: Bounds) -> None:
    source = bounds.tensor(operand(op, 0))
    parts = strided_parts(op, bounds.table)
    if parts is None:
        raise NotBoundError("only a run says from where on it takes elements")
    source, parts = _without_ends(op, source, parts, bounds)
    whole = source.static_shape
    ends = [min(most_of(part.last), size) for part, size in zip(parts, whole, strict=True)]
    lists = ([part.first for part in parts], ends, [part.step for part in parts])
    dropped = sum(1 << axis for axis, part in enumerate(parts) if part.is_dropped)
    rows = zip(parts, ends, strict=True)
    taken = tuple(-((p.first - end) // p.step) for p, end in rows if not p.is_dropped)
    if taken != bounds.tensor(op.outputs[0]).static_shape:
        raise NotBoundError("it may take nothing at all")
    inputs = [source, *(listed(op, tuple(each)) for each in lists)]
    bounds.repeat(op, inputs=inputs, attrs=StridedSliceAttrs(shrink_axis_mask=dropped))


def _without_ends(
    op: Op, source: Tensor, parts: list[Taken], bounds: Bounds
) -> tuple[Tensor, list[Taken]]:
    """What is left to take once places counted from the end of axes are gathered."""
    left = list(parts)
    for axis, (part, size) in enumerate(zip(parts, bounds.sizes(operand(op, 0)), strict=True)):
        if part.first >= 0:
            continue
        count = most_of(part.last) - part.first
        places = (bounds.table.joined(SUM, [size, part.first + i]) for i in range(count))
        index = Tensor(f"{op.name} (places)", DType.INT32, (count,))
        bounds.add_list(op, tuple(place for place in places if place is not None), index)
        taken = source.like(f"{op.name} (end)")
        taken.shape = (*source.shape[:axis], count, *source.shape[axis + 1 :])
        bounds.add(op, "GATHER", [source, index], GatherAttrs(axis), [taken])
        source, left[axis] = taken, Taken(0, count, part.is_dropped)
    return source, left


def _bind_slice(op: Op, bounds: Bounds) -> None:
    sizes = listed(op, bounds.tensor(op.outputs[0]).static_shape)
    begin = listed(op, tuple(np.asarray(operand(op, 1).data).reshape(-1).tolist()))
    bounds.repeat(op, inputs=[bounds.tensor(operand(op, 0)), begin, sizes])


def _bind_concatenation(op: Op, bounds: Bounds) -> None:
    parts, axis = [tensor for tensor in op.inputs if tensor is not None], concatenation_axis(op)
    result = bounds.tensor(op.outputs[0])
    if not isinstance(bounds.sizes(op.outputs[0])[axis], Size):
        bounds.repeat(op)
        return
    if any(part.quant is not None and not part.quant.same_as(result.quant) for part in parts):
        raise NotBoundError("it rescales parts whose sizes depend on the data of a run")
    is_inner = prod(result.static_shape[:axis]) != 1
    is_room = bounds.tensor(parts[0]).shape == result.shape
    if (is_inner or is_room) and all(
        isinstance(bounds.sizes(part)[axis], int) for part in parts[1:]
    ):
        _append(op, parts, axis, bounds)
        return
    if is_inner:
        raise NotBoundError("it joins parts along an inner axis whose size depends on the data")
    counts = [bounds.count(bounds.sizes(part)[axis], op) for part in parts]
    inputs = [*map(bounds.tensor, parts), *counts]
    bounds.add(op, CONCATENATION, inputs, AxisAttrs(axis), [result])


def _append(op: Op, parts: list[Tensor], axis: int, bounds: Bounds) -> None:
    """Put parts of known sizes behind what a run fills of the first one."""
    result = bounds.tensor(op.outputs[0])
    made, size = fitted(op, bounds.tensor(parts[0]), result, bounds), bounds.sizes(parts[0])[axis]
    for number, part in enumerate(parts[1:], 2):
        filled, update = made, bounds.tensor(part)
        made = result if number == len(parts) else result.like(f"{op.name} (part)")
        _put(op, [filled, update], axis, size, made, bounds)
        total = bounds.table.joined(SUM, [size, update.static_shape[axis]])
        assert total is not None
        size = total


def _put(
    op: Op, tensors: list[Tensor], axis: int, place: Number, result: Tensor, bounds: Bounds
) -> None:
    """Put a tensor into another one, from a place of an axis on."""
    rank = len(result.shape)
    starts = Tensor(f"{op.name} (start)", DType.INT32, (rank,))
    bounds.add_list(op, tuple(place if each == axis else 0 for each in range(rank)), starts)
    bounds.add(op, "DYNAMIC_UPDATE_SLICE", [*tensors, starts], NoAttrs(), [result])


def _bind_appended(op: Op, bounds: Bounds) -> None:
    """A row behind those that are filled."""
    result, row = bounds.tensor(op.outputs[0]), bounds.tensor(operand(op, 1))
    stack, sizes = bounds.tensor(operand(op, 0)), bounds.sizes(operand(op, 0))
    if is_open(bounds.sizes(operand(op, 1))):
        raise NotBoundError("rows have sizes that depend on the data")
    rows = row.like(f"{op.name} (row)")
    rows.shape = (1, *row.static_shape)
    bounds.add(op, "RESHAPE", [row], ReshapeAttrs(rows.static_shape), [rows])
    _put(op, [fitted(op, stack, result, bounds), rows], 0, sizes[0], result, bounds)


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
            given = bounds.filled(op, given, axis, size, _neutral(op, source.dtype))
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


_KINDS: dict[str, Bind] = {
    "IF": bind_if,
    "WHILE": bind_while,
    **dict.fromkeys(("GATHER", "GATHER_ND", "TRANSPOSE", "PACK"), _repeat),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _bind_reshape),
    "FILL": _bind_fill,
    "BROADCAST_TO": _bind_broadcast,
    "STRIDED_SLICE": _bind_strided_slice,
    "SLICE": _bind_slice,
    "CONCATENATION": _bind_concatenation,
    APPEND: _bind_appended,
    **dict.fromkeys((*_NEUTRAL, "MEAN"), _bind_reduction),
    **dict.fromkeys(SCATTERS, bind_scatter),
    **FINDERS,
}
