"""Tensors whose elements are sizes that a run decides: what SHAPE gives, and arithmetic of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circlet.ir import Op
from circlet.ops import find
from circlet.ops.operands import known_ints, operand
from circlet.plan.sizes import (
    GREATEST,
    LEAST,
    PRODUCT,
    SUM,
    Numbers,
    SizeTable,
    fewest_of,
    spread,
)

Rule = Callable[[Op, SizeTable], Numbers | None]


def numbers_of(op: Op, table: SizeTable) -> Numbers | None:
    """The elements of an op's result, where they are sizes as far as a plan can tell; else None."""
    rule = _KINDS.get(op.label)
    if rule is None or not op.outputs[0].dtype.is_integer:
        return None
    return rule(op, table)


def _same_numbers(op: Op, table: SizeTable) -> Numbers | None:
    return table.elements(op.input(0))


def _joined_numbers(form: str) -> Rule:
    def numbers(op: Op, table: SizeTable) -> Numbers | None:
        first, second = table.elements(op.input(0)), table.elements(op.input(1))
        if first is None or second is None:
            return None
        length = max(len(first), len(second))
        if {len(first), len(second)} - {1, length}:
            return None
        wide = [list(x) * length if len(x) == 1 else list(x) for x in (first, second)]
        made = [table.joined(form, pair) for pair in zip(*wide, strict=True)]
        known = [number for number in made if number is not None]
        return tuple(known) if len(known) == length else None

    return numbers


def _reduced_numbers(form: str) -> Rule:
    def numbers(op: Op, table: SizeTable) -> Numbers | None:
        given = table.elements(op.input(0))
        if not given or op.outputs[0].elements != 1 or None in op.outputs[0].shape:
            return None
        made = table.joined(form, given)
        return None if made is None else (made,)

    return numbers


def _sizes_as_numbers(op: Op, table: SizeTable) -> Numbers | None:
    return table.of(operand(op, 0))


def _gathered_numbers(op: Op, table: SizeTable) -> Numbers | None:
    given, places = table.elements(op.input(0)), known_ints(op.input(1))
    if given is None or places is None or len(operand(op, 0).shape) != 1:
        return None
    inside = all(0 <= place < len(given) for place in places)
    return tuple(given[place] for place in places) if inside else None


def _sliced_numbers(op: Op, table: SizeTable) -> Numbers | None:
    given, view = table.elements(op.input(0)), find(op.kind)
    if given is None or view is None or view.view is None or len(operand(op, 0).shape) != 1:
        return None
    found = view.view(op, 0)
    if found is None:
        return None
    (taken,) = found.ranges
    return tuple(given[taken.start + i * taken.step] for i in range(taken.count or 0))


def note_zeros(op: Op, table: SizeTable) -> None:
    """Take down which flags say where sizes are 0."""
    tested = op.input(0)
    if op.kind != "EQUAL" or tested is None or known_ints(op.input(1)) != (0,):
        return
    if tested in table.numbers:
        table.zeros[op.outputs[0]] = tested


def _numbers_for_zeros(op: Op, table: SizeTable) -> Numbers | None:
    """Sizes of which those that are 0 become others, as those of ONNX's Reshape do.

    One that may be 0 is what it is, where the other equals it.
    """
    flags, others, tested = (operand(op, index) for index in range(3))
    kept, instead = table.elements(tested), table.elements(others)
    if table.zeros.get(flags) is not tested or kept is None or instead is None:
        return None
    made = [other if size == 0 else size for size, other in zip(kept, instead, strict=False)]
    pairs = zip(kept, instead, strict=False)
    settled = all(fewest_of(size) > 0 or size in (0, -1, other) for size, other in pairs)
    return tuple(made) if settled and len(made) == len(kept) else None


def _broadcast_numbers(op: Op, table: SizeTable) -> Numbers | None:
    """Sizes that two lists of sizes have together, where a plan can tell that they fit."""
    first, second = table.elements(op.input(0)), table.elements(op.input(1))
    return None if first is None or second is None else spread([first, second])


def _all_numbers(op: Op, table: SizeTable) -> Numbers | None:
    parts = [table.elements(tensor) for tensor in op.inputs]
    known = [part for part in parts if part is not None]
    flat = all(tensor is not None and len(tensor.shape) <= 1 for tensor in op.inputs)
    return sum(known, ()) if flat and len(known) == len(parts) else None


_KINDS: Mapping[str, Rule] = {
    "SHAPE": _sizes_as_numbers,
    "CAST": _same_numbers,
    "RESHAPE": _same_numbers,
    "SQUEEZE": _same_numbers,
    "EXPAND_DIMS": _same_numbers,
    "GATHER": _gathered_numbers,
    "STRIDED_SLICE": _sliced_numbers,
    "SLICE": _sliced_numbers,
    "BROADCAST_ARGS": _broadcast_numbers,
    "CONCATENATION": _all_numbers,
    "PACK": _all_numbers,
    "SELECT_V2": _numbers_for_zeros,
    "ADD": _joined_numbers(SUM),
    "MUL": _joined_numbers(PRODUCT),
    "MINIMUM": _joined_numbers(LEAST),
    "MAXIMUM": _joined_numbers(GREATEST),
    "REDUCE_MIN": _reduced_numbers(LEAST),
    "REDUCE_MAX": _reduced_numbers(GREATEST),
    "REDUCE_PROD": _reduced_numbers(PRODUCT),
    "SUM": _reduced_numbers(SUM),
}
