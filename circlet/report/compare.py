"""What differs between two reports: operators of their files, matched by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from circlet.report.data import OperatorItem, Report
from circlet.report.names import first_name


@dataclass(frozen=True)
class PairItem:
    """An operator in both, or in one; `first` and `second` are its positions, None for none."""

    name: str
    kind: str
    first: int | None
    second: int | None
    other_kind: str = ""


@dataclass(frozen=True)
class Comparison:
    """Operators of two reports side by side, in the order of the first, then of the second."""

    pairs: tuple[PairItem, ...]


def compare(first: Report, second: Report) -> Comparison:
    """Match the operators of two files.

    By name and kind, then by name alone, then by kind and the first of the names that a converter
    joined; where a name comes several times, in order.
    """
    left, right = first.source.operators, second.source.operators
    matched = _matched(left, right, lambda op: (op.name, op.kind), {})
    matched = _matched(left, right, lambda op: op.name, matched)
    matched = _matched(left, right, lambda op: (first_name(op.name), op.kind), matched)
    return Comparison(tuple(_pairs(left, right, matched)))


def _matched(
    left: Sequence[OperatorItem],
    right: Sequence[OperatorItem],
    key: Callable[[OperatorItem], object],
    known: dict[int, int],
) -> dict[int, int]:
    """Pairs of positions, those that are known and those of an equal key."""
    taken = set(known.values())
    waiting: dict[object, list[int]] = defaultdict(list)
    for index in reversed(range(len(right))):
        if index not in taken:
            waiting[key(right[index])].append(index)
    found = dict(known)
    for index, op in enumerate(left):
        if index not in found and waiting[key(op)]:
            found[index] = waiting[key(op)].pop()
    return found


def _pairs(
    left: Sequence[OperatorItem], right: Sequence[OperatorItem], matched: dict[int, int]
) -> Iterator[PairItem]:
    for index, op in enumerate(left):
        other = matched.get(index)
        kind = "" if other is None or right[other].kind == op.kind else right[other].kind
        yield PairItem(op.name, op.kind, index, other, kind)
    taken = set(matched.values())
    for index, op in enumerate(right):
        if index not in taken:
            yield PairItem(op.name, op.kind, None, index)
