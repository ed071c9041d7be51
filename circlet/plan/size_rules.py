"""How the open sizes of an operator's results follow from those of its operands."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from circlet.ir import Graph, Op
from circlet.ops import find
from circlet.ops.gather import gather_axes
from circlet.ops.layout import concatenation_axis, permutation
from circlet.ops.operands import known_ints, operand
from circlet.ops.reduce import ReducerAttrs, constant_axes
from circlet.ops.shape import reshape_target, squeezed_axes
from circlet.ops.slicing import slice_of
from circlet.ops.split import pack_axis
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.plan.found_sizes import FOUND, THINNED, Rule
from circlet.plan.loop_sizes import sizes_of_loop
from circlet.plan.size_numbers import note_zeros, numbers_of
from circlet.plan.size_probes import probed
from circlet.plan.sizes import (
    GREATEST,
    LEAST,
    PRODUCT,
    SUM,
    Number,
    Numbers,
    Size,
    SizeTable,
    fewest_of,
    is_open,
    most_of,
    spread,
)

_NOTHING: list[Numbers | None] = []
APPEND = "CUSTOM:onnx.Append"
SCATTERS = tuple(f"CUSTOM:onnx.{kind}" for kind in ("ScatterElements", "Scatter", "ScatterND"))
_POINTWISE = frozenset({"CAST", "SELECT_V2", "QUANTIZE", "DEQUANTIZE"})


def settle_sizes(graph: Graph, table: SizeTable) -> None:
    """Take down what is known of the open sizes of a graph whose shapes are settled."""
    for op in graph.ops:
        given = [tensor for tensor in op.inputs if tensor is not None]
        is_open = any(None in t.shape for t in op.outputs) or any(map(table.concerns, given))
        if is_open or op.kind in THINNED or op.kind == "WHILE":
            _settle(op, table)


def _settle(op: Op, table: SizeTable) -> None:
    made = _rule_of(op)(op, table)
    for tensor, sizes in zip(op.outputs, made, strict=False):
        if sizes is None or len(sizes) != len(tensor.shape):
            continue
        stated = zip(tensor.shape, sizes, strict=True)
        settled = tuple(size if known is None else known for known, size in stated)
        if None in tensor.shape:
            table.sizes[tensor] = settled
    note_zeros(op, table)
    found = numbers_of(op, table)
    if found is not None:
        (table.numbers if is_open(found) else table.parts)[op.outputs[0]] = found


def _rule_of(op: Op) -> Rule:
    rule = _RULES.get(op.label)
    if rule is not None:
        return rule
    return _pointwise if is_pointwise(op) else probed


def is_pointwise(op: Op) -> bool:
    """Whether each element of the one result follows from one element of each operand."""
    record = find(op.label)
    return op.kind in _POINTWISE or (record is not None and record.scalar is not None)


def _pointwise(op: Op, table: SizeTable) -> list[Numbers | None]:
    shapes = [table.of(tensor) for tensor in op.inputs if tensor is not None]
    known = [shape for shape in shapes if shape is not None]
    return [spread(known) if len(known) == len(shapes) else None]


def _like_first(op: Op, table: SizeTable) -> list[Numbers | None]:
    return [table.of(operand(op, 0))]


def _gather(op: Op, table: SizeTable) -> list[Numbers | None]:
    data, indices = table.of(operand(op, 0)), table.of(operand(op, 1))
    if data is None or indices is None:
        return _NOTHING
    axis, batch = gather_axes(op)
    return [(*data[:axis], *indices[batch:], *data[axis + 1 :])]


def _gather_nd(op: Op, table: SizeTable) -> list[Numbers | None]:
    data, indices = table.of(operand(op, 0)), table.of(operand(op, 1))
    if data is None or indices is None or not isinstance(indices[-1], int):
        return _NOTHING
    return [(*indices[:-1], *data[indices[-1] :])]


def _transpose(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes, order = table.of(operand(op, 0)), permutation(op)
    return [None if sizes is None or order is None else tuple(sizes[axis] for axis in order)]


def _squeeze(op: Op, table: SizeTable) -> list[Numbers | None]:
    source, sizes = operand(op, 0), table.of(operand(op, 0))
    if sizes is None:
        return _NOTHING
    dropped = squeezed_axes(op, source.shape)
    return [tuple(size for axis, size in enumerate(sizes) if axis not in dropped)]


def _expand_dims(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes, axes = table.of(operand(op, 0)), known_ints(op.input(1))
    if sizes is None or axes is None:
        return _NOTHING
    axis = axes[0] + len(sizes) + 1 if axes[0] < 0 else axes[0]
    return [(*sizes[:axis], 1, *sizes[axis:])]


def _reshape(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes = table.of(operand(op, 0))
    target: Numbers | None = reshape_target(op)
    target = table.elements(op.input(1)) if target is None else target
    if sizes is None or target is None:
        return _NOTHING
    if -1 not in target:
        return [target]
    rest = _rest(list(sizes), [size for size in target if size != -1], table)
    return [None if rest is None else tuple(rest if size == -1 else size for size in target)]


def _rest(sizes: list[Number], named: list[Number], table: SizeTable) -> Number | None:
    """What sizes come to where those that are named are divided out; None where they do not."""
    for size in [size for size in named if isinstance(size, Size)]:
        if size not in sizes:
            return None
        sizes.remove(size)
    fixed = prod(size for size in sizes if isinstance(size, int))
    divisor = prod(size for size in named if isinstance(size, int))
    if not divisor or fixed % divisor:
        return None
    open_sizes = [size for size in sizes if isinstance(size, Size)]
    return table.joined(PRODUCT, [fixed // divisor, *open_sizes])


def _concatenation(op: Op, table: SizeTable) -> list[Numbers | None]:
    parts = [table.of(tensor) for tensor in op.inputs if tensor is not None]
    known = [part for part in parts if part is not None]
    axis = concatenation_axis(op)
    if len(known) < len(parts) or not known:
        return _NOTHING
    first = known[0]
    if any(part[:axis] + part[axis + 1 :] != first[:axis] + first[axis + 1 :] for part in known):
        return _NOTHING
    total = table.joined(SUM, [part[axis] for part in known])
    return [None if total is None else (*first[:axis], total, *first[axis + 1 :])]


def _appended(op: Op, table: SizeTable) -> list[Numbers | None]:
    """One row more; all rows have the sizes of this one, or the run would be refused."""
    stack, row = table.of(operand(op, 0)), table.of(operand(op, 1))
    total = None if stack is None else table.joined(SUM, [stack[0], 1])
    return [None if total is None or row is None else (total, *row)]


def _pack(op: Op, table: SizeTable) -> list[Numbers | None]:
    parts, axis = [table.of(tensor) for tensor in op.inputs if tensor is not None], pack_axis(op)
    first = parts[0]
    if first is None or any(part != first for part in parts):
        return _NOTHING
    return [(*first[:axis], len(parts), *first[axis:])]


def _listed(index: int) -> Rule:
    return lambda op, table: [table.elements(op.input(index))]


def _reduced(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes, axes = table.of(operand(op, 0)), constant_axes(op)
    if sizes is None or axes is None:
        return _NOTHING
    if op.attributes(ReducerAttrs).keep_dims:
        return [tuple(1 if axis in axes else size for axis, size in enumerate(sizes))]
    return [tuple(size for axis, size in enumerate(sizes) if axis not in axes)]


class Taken(NamedTuple):
    """What a STRIDED_SLICE takes of an axis: the places from `first` to before `last`.

    Attributes:
        first: Counted from the front; or where it is negative, as `last` is then too or 0, from the
            end of an axis that is as long in every run.
        is_dropped: Whether the axis, of which one place is taken, is left out of the result.
        step: From one place to the next; more than 1 along axes of known size alone.
    """

    first: int
    last: Number
    is_dropped: bool
    step: int = 1


def strided_parts(op: Op, table: SizeTable) -> list[Taken] | None:
    """What a STRIDED_SLICE takes of each axis.

    None where it does more than to take places of axes, each from a place on that is known.
    """
    attrs = op.attributes(StridedSliceAttrs)
    sizes, steps = table.of(operand(op, 0)), known_ints(op.input(3))
    begin, end = known_ints(op.input(1)), table.elements(op.input(2))
    if sizes is None or begin is None or end is None or steps is None or min(steps, default=1) < 1:
        return None
    is_plain = not (attrs.ellipsis_mask or attrs.new_axis_mask or attrs.offset)
    if not is_plain or not len(begin) == len(end) <= len(sizes):
        return None
    parts: list[Taken] = []
    for axis, size in enumerate(sizes):
        whole = axis >= len(begin)
        first = 0 if whole or attrs.begin_mask >> axis & 1 else begin[axis]
        first += size if isinstance(size, int) and first < 0 else 0
        is_dropped = not whole and bool(attrs.shrink_axis_mask >> axis & 1)
        stated = size if whole or attrs.end_mask >> axis & 1 else end[axis]
        if first < 0:
            behind = _behind(first, stated, is_dropped, size)
            if behind is None or not (is_dropped or steps[axis] == 1):
                return None
            parts.append(behind)
            continue
        last = _end(stated, size, table)
        if last is None or fewest_of(last) < 0:
            return None
        step = 1 if whole or is_dropped else steps[axis]
        if step > 1 and not (isinstance(size, int) and isinstance(last, int)):
            return None
        parts.append(Taken(first, first + 1 if is_dropped else last, is_dropped, step))
    return parts


def _behind(first: int, last: Number, is_dropped: bool, size: Number) -> Taken | None:
    """Places counted from the end of an open axis; None where it may be too short."""
    if not isinstance(size, Size) or -first > size.fewest:
        return None
    if is_dropped:
        return Taken(first, first + 1, is_dropped)
    if last is size or (isinstance(last, int) and last >= size.most):
        return Taken(first, 0, is_dropped)
    is_known = isinstance(last, int) and first < last < 0
    return Taken(first, last, is_dropped) if is_known else None


def _end(end: Number, size: Number, table: SizeTable) -> Number | None:
    """A place counted from the front; one that is known to be negative counts from the end."""
    if not isinstance(end, int) or end >= 0:
        return end
    counted = table.joined(SUM, [size, end])
    return None if counted is None else table.joined(GREATEST, [0, counted])


def _strided_slice(op: Op, table: SizeTable) -> list[Numbers | None]:
    sizes, parts = table.of(operand(op, 0)), strided_parts(op, table)
    if sizes is None or parts is None:
        return _NOTHING
    made = [
        part_of(part, size, table)
        for part, size in zip(parts, sizes, strict=True)
        if not part.is_dropped
    ]
    known = [size for size in made if size is not None]
    return [tuple(known) if len(known) == len(made) else None]


def part_of(part: Taken, size: Number, table: SizeTable) -> Number | None:
    """How many places are taken of an axis."""
    if part.first < 0:
        return None if isinstance(part.last, Size) else part.last - part.first
    end = table.joined(LEAST, [size, part.last])
    left = None if end is None else table.joined(SUM, [end, -part.first])
    if isinstance(left, int):
        return max(0, -(-left // part.step))
    return None if left is None else table.joined(GREATEST, [0, left])


def _slice(op: Op, table: SizeTable) -> list[Numbers | None]:
    """Where the start is known: what is asked for is all there, or the run would be refused."""
    sizes, begin, taken = table.of(operand(op, 0)), known_ints(op.input(1)), known_ints(op.input(2))
    counts = table.elements(op.input(2)) if taken is None else taken
    if sizes is None or begin is None or counts is None:
        return _NOTHING
    if taken is not None and slice_of(operand(op, 0).shape, begin, taken) is None:
        return _NOTHING
    made: list[Number] = []
    for size, first, count in zip(sizes, begin, counts, strict=True):
        rest = table.joined(SUM, [size, -first]) if count == -1 else count
        is_there = count == -1 or rest is size or _never_above(count, first, size)
        if rest is None or not is_there or fewest_of(rest) < 0:
            return _NOTHING
        made.append(rest)
    return [tuple(made)]


def _never_above(count: Number, first: int, size: Number) -> bool:
    """Whether an axis has so many places from one on in every run, as far as a plan can tell."""
    is_least = isinstance(count, Size) and count.form == LEAST and size in count.terms
    return first + most_of(count) <= fewest_of(size) or (is_least and first == 0)


def _if(op: Op, table: SizeTable) -> list[Numbers | None]:
    """Where branches give results of other sizes, the larger ones bound them."""
    for region in op.regions:
        if region in table.callers:
            return _NOTHING  # its tensors have the sizes of another call
        table.callers[region] = op
        for inner, given in zip(region.inputs, op.inputs[1:], strict=True):
            table.take_over(inner, operand(op, 0) if given is None else given)
        settle_sizes(region, table)
    chosen: dict[tuple[Number, Number], Number] = {}
    pairs = zip(*(region.outputs for region in op.regions), strict=True)
    return [_chosen(table.of(first), table.of(second), chosen) for first, second in pairs]


def _chosen(
    first: Numbers | None, second: Numbers | None, chosen: dict[tuple[Number, Number], Number]
) -> Numbers | None:
    """Sizes of one of two results; equal pairs of sizes give one number."""
    if first is None or second is None or len(first) != len(second):
        return None
    pairs = list(zip(first, second, strict=True))
    for pair in pairs:
        one, other = pair
        most = max(map(most_of, pair))
        fewest = min(map(fewest_of, pair))
        chosen.setdefault(pair, one if one == other else Size(most, fewest, terms=pair))
    return tuple(chosen[pair] for pair in pairs)


def _while(op: Op, table: SizeTable) -> list[Numbers | None]:
    return sizes_of_loop(op, table, settle_sizes)


_RULES: dict[str, Rule] = {
    "IF": _if,
    "WHILE": _while,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "TRANSPOSE": _transpose,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "RESHAPE": _reshape,
    "CONCATENATION": _concatenation,
    APPEND: _appended,
    "PACK": _pack,
    "FILL": _listed(0),
    "BROADCAST_TO": _listed(1),
    **dict.fromkeys(
        ("REDUCE_MAX", "REDUCE_MIN", "SUM", "MEAN", "REDUCE_ANY", "REDUCE_ALL"), _reduced
    ),
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    **FOUND,
    **dict.fromkeys(SCATTERS, _like_first),
}
