"""Sizes that the turns of a loop change: what they never exceed, and which stay equal.

Sizes are taken to be what they are before the loop, the body is looked at with them, and those that
it changes are taken to be any number up to a bound; until the body gives what it was taken to be
given. What holds before the first turn, and behind a turn if it held before it, holds in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from circlet.ir import Graph, Op, Tensor
from circlet.plan.sizes import (
    GREATEST,
    LEAST,
    MADE,
    SUM,
    LoopSize,
    LoopSizes,
    Number,
    Numbers,
    Size,
    SizeTable,
    fewest_of,
    most_of,
)
from circlet.plan.trip_counts import counters, most_turns

_ROUNDS = 12
_LARGEST_COUNT = 1 << 31
_Axis = tuple[int, int]  # of a variable, by its place
_Settle = Callable[[Graph, SizeTable], None]


def sizes_of_loop(op: Op, table: SizeTable, settle: _Settle) -> list[Numbers | None]:
    """The sizes of what a WHILE gives; none where nothing bounds one that its turns change."""
    if any(region in table.callers for region in op.regions):
        return []  # their tensors have the sizes of another call
    table.callers.update(dict.fromkeys(op.regions, op))
    given = [None if tensor is None else table.of(tensor) for tensor in op.inputs]
    found = _Loop(op, table, given, settle).settled()
    if found is None:
        return []
    _note_counters(op, table, found.turns)
    made: list[Numbers | None] = []
    for place, sizes in enumerate(given):
        assert sizes is not None
        axes = enumerate(sizes)
        made.append(tuple(found.last.get((place, axis), size) for axis, size in axes))
    return made


def _note_counters(op: Op, table: SizeTable, turns: int | None) -> None:
    """Take down how far the counters of a loop come."""
    if turns is None:
        return
    for place, counter in counters(op, table).items():
        most = counter.start + counter.step * turns
        if 0 <= counter.start < most < _LARGEST_COUNT:
            table.numbers[op.outputs[place]] = (Size(most, counter.start),)


@dataclass(frozen=True)
class _Found:
    """What is known of a loop: how often it turns at most, and sizes behind it that it changes."""

    turns: int | None
    last: dict[_Axis, Number]


class _Loop:
    """A loop whose body is looked at with sizes that are taken to hold."""

    def __init__(
        self, op: Op, table: SizeTable, given: list[Numbers | None], settle: _Settle
    ) -> None:
        self._op, self._table, self._given, self._settle = op, table, given, settle
        self._condition, self._body = op.regions
        self._first: dict[_Axis, Number] = {}
        self.turns = most_turns(op, table)

    def settled(self) -> _Found | None:
        """What is known once it holds for all turns, which the table then knows as well."""
        for place, sizes in enumerate(self._given):
            if sizes is None:
                return None
            shape = self._body.inputs[place].shape
            if len(shape) != len(sizes):
                return None
            self._first |= {(place, a): sizes[a] for a, size in enumerate(shape) if size is None}
        taken: dict[_Axis, Number] | None = dict(self._first)
        for _ in range(_ROUNDS):
            before = taken
            assert before is not None
            trial = self._tried(before)
            after = None if trial is None else self._after(trial)
            taken = None if after is None else self._taken(before, after)
            if trial is None or after is None or taken is None:
                return None
            if taken == before:
                return self._agreed(before, after, trial)
        return None

    def _tried(
        self, taken: dict[_Axis, Number], known: dict[Size, int] | None = None
    ) -> SizeTable | None:
        """What is known of the loop's graphs where their inputs have these sizes."""
        trial = self._table.trial()
        if trial is None:
            return None
        for size, most in (known or {}).items():
            trial.limit(size, most)
        for region in (self._condition, self._body):
            for place, inner in enumerate(region.inputs):
                self._give(trial, place, inner, taken)
            self._settle(region, trial)
        return trial

    def _give(
        self, trial: SizeTable, place: int, inner: Tensor, taken: dict[_Axis, Number]
    ) -> None:
        given, body = self._op.inputs[place], self._body
        if given is not None and body.outputs[place] is body.inputs[place]:
            trial.take_over(inner, given)
        elif None in inner.shape:
            axes = enumerate(inner.shape)
            trial.sizes[inner] = tuple(
                taken[place, axis] if size is None else size for axis, size in axes
            )

    def _after(self, trial: SizeTable) -> dict[_Axis, Number] | None:
        """The sizes behind a turn."""
        made: dict[_Axis, Number] = {}
        for place, axis in self._first:
            sizes = trial.of(self._body.outputs[place])
            if sizes is None:
                return None
            made[place, axis] = sizes[axis]
        return made

    def _taken(
        self, before: dict[_Axis, Number], after: dict[_Axis, Number]
    ) -> dict[_Axis, Number] | None:
        """What sizes are to be taken to be before a turn that leaves these behind it."""
        made: dict[tuple[Number, Number], Number | None] = {}
        for axis, size in before.items():
            pair = size, after[axis]
            if pair not in made:
                others = {s for known, s in made.items() if known[0] is size}
                made[pair] = self._wider(size, after[axis], self._first[axis])
                if made[pair] in others and isinstance(size, Size):
                    made[pair] = replace(size)  # equal before the loop alone
        chosen = {axis: made[size, after[axis]] for axis, size in before.items()}
        known = {axis: size for axis, size in chosen.items() if size is not None}
        return known if len(known) == len(chosen) else None

    def _wider(self, size: Number, after: Number, first: Number) -> Number | None:
        """A size that covers one that was taken, and what a turn leaves."""
        if after is size or after == size:
            return size
        if size is first:
            return Size(most_of(first), fewest_of(first))
        assert isinstance(size, Size)
        most = self._bound(size, after, first)
        fewest = min(size.fewest, fewest_of(after))
        if most is None or fewest < 0:
            return None
        most = max(most, size.most)
        return size if (most, fewest) == (size.most, size.fewest) else Size(most, fewest)

    def _bound(self, size: Size, after: Number, first: Number) -> int | None:
        """What a size never exceeds: what no turn can make larger, or all turns together."""
        growth, most = growth_and_most(after, size)
        bounds = [] if most is None else [max(most_of(first), most)]
        if growth is not None and self.turns is not None:
            bounds.append(most_of(first) + self.turns * max(0, growth))
        return min(bounds, default=None)

    def _agreed(
        self, before: dict[_Axis, Number], after: dict[_Axis, Number], trial: SizeTable
    ) -> _Found | None:
        """Take down what holds in every turn; behind one, sizes keep the bounds as well."""
        pairs = {(before[axis], after[axis]): axis for axis in before}
        grown = {
            behind: size.most
            for size, behind in pairs
            if size is not behind and isinstance(behind, Size) and isinstance(size, Size)
            if behind.form != MADE and behind.most > size.most
        }
        if grown:
            known = self._tried(before, grown)
            after_it = None if known is None else self._after(known)
            if known is None or after_it is None:
                return None
            trial, after = known, after_it
        changing: dict[tuple[Number, Number], LoopSize] = {}
        last: dict[_Axis, Number] = {}
        for axis, size in before.items():
            pair = size, after[axis]
            if isinstance(size, Size) and after[axis] is not size:
                end = Size(size.most, size.fewest)
                changing.setdefault(pair, LoopSize(self._first[axis], size, after[axis], end))
                last[axis] = changing[pair].last
        self._table.take_down(trial)
        if changing or _has_open_sizes(self._op.regions, self._table):
            self._table.loops[self._body] = LoopSizes(tuple(changing.values()), self.turns)
        return _Found(self.turns, last)


def _has_open_sizes(regions: list[Graph], table: SizeTable) -> bool:
    ops = [op for region in regions for op in region.ops]
    tensors = (t for op in ops for t in (*op.inputs, *op.outputs) if t is not None)
    is_nested = any(region in table.loops for op in ops for region in op.regions)
    return is_nested or any(None in tensor.shape for tensor in tensors)


def growth_and_most(number: Number, size: Size) -> tuple[int | None, int | None]:
    """By how much a number exceeds a size at the most, and what it is at most whatever that is."""
    facts: dict[Number, tuple[bool, int | None, int | None]] = {size: (True, 0, None)}
    for each in _from_below(number):
        if each is not size:
            facts[each] = _facts(each, size, facts)
    return facts[number][1:]


def _from_below(number: Number) -> Iterator[Number]:
    """A number and all that it follows from, each behind its terms."""
    waiting, seen = [(number, False)], set[Number]()
    while waiting:
        each, is_done = waiting.pop()
        if is_done:
            yield each
        elif each not in seen:
            seen.add(each)
            waiting.append((each, True))
            waiting += [(term, False) for term in (each.terms if isinstance(each, Size) else ())]


def _facts(
    number: Number, size: Size, facts: dict[Number, tuple[bool, int | None, int | None]]
) -> tuple[bool, int | None, int | None]:
    """Whether a number depends on a size, and how far it exceeds it, and anything."""
    terms = number.terms if isinstance(number, Size) else ()
    below = [facts[term] for term in terms]
    if not any(depends for depends, _, _ in below) or not isinstance(number, Size):
        return False, most_of(number) - size.fewest, most_of(number)
    growths, mosts = ([row[i] for row in below] for i in (1, 2))
    known = [growth for growth in growths if growth is not None]
    bounds = [most for most in mosts if most is not None]
    if number.form == LEAST:
        return True, min(known, default=None), min(bounds, default=None)
    if number.form in (GREATEST, MADE):
        are_known = len(known) == len(terms), len(bounds) == len(terms)
        return True, max(known) if are_known[0] else None, max(bounds) if are_known[1] else None
    own = [row[1] for row in below if row[0]]
    if number.form != SUM or len(own) != 1 or own[0] is None:
        return True, None, None
    rest = (most_of(term) for term, row in zip(terms, below, strict=True) if not row[0])
    return True, own[0] + sum(rest), None
