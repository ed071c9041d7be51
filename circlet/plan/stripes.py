"""Chains of image ops stripe by stripe: which rows of each image are made, and where they are.

A chain's images but the last live in small buffers that hold the rows of one stripe. Rows are
counted as windows see them: those above the image and below it are padding. A run of stripes starts
afresh, making the rows that windows of its first stripe share with the stripe before; later stripes
keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from circlet.ops.geometry import Window


class Stage(NamedTuple):
    """How one op of a chain makes rows of its image from rows of the image before.

    Attributes:
        height: Rows of the image that it makes.
        window: Its windows along the rows.
        top: Rows of padding above the first window.
    """

    height: int
    window: Window
    top: int

    def reads(self, rows: Rows) -> Rows:
        """The rows that windows of some output rows cover."""
        if not rows:
            return rows
        first = rows.first * self.window.stride - self.top
        last = (rows.stop - 1) * self.window.stride - self.top + self.window.extent
        return Rows(first, last)


class Rows(NamedTuple):
    """The rows from `first` up to and without `stop`."""

    first: int
    stop: int

    def __bool__(self) -> bool:
        return self.first < self.stop

    @property
    def height(self) -> int:
        """Number of rows."""
        return max(0, self.stop - self.first)

    def within(self, height: int) -> Rows:
        """Those rows that lie in an image."""
        return Rows(min(max(self.first, 0), height), max(min(self.stop, height), 0))


class Make(NamedTuple):
    """Stage `stage` makes rows; buffers start with the rows `source` and `target`.

    The first stage reads the chain's input and the last writes its output, which are no buffers:
    their rows count from 0.
    """

    stage: int
    rows: Rows
    source: int
    target: int


class Fill(NamedTuple):
    """Rows of padding come into the buffer of `stage`, which starts with the row `target`."""

    stage: int
    rows: Rows
    target: int


class Keep(NamedTuple):
    """Rows stay in the buffer of `stage`, which started with the row `before`, now with `after`."""

    stage: int
    rows: Rows
    before: int
    after: int


Step = Make | Fill | Keep


class Stripe(NamedTuple):
    """What happens for one stripe.

    Attributes:
        afresh: Steps where the stripe before was not done by the same thread just before.
        onward: Steps instead of those where it was.
        body: Steps behind either.
    """

    afresh: tuple[Step, ...]
    onward: tuple[Step, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True)
class StripePlan:
    """Stripes of a chain, and how many rows the buffer behind each stage but the last holds."""

    stages: tuple[Stage, ...]
    stripes: tuple[Stripe, ...]
    capacities: tuple[int, ...]


class _Reach(NamedTuple):
    """What stages make for a stripe, and what of the image of each windows then cover."""

    made: list[Rows]
    covered: list[Rows]

    @property
    def ends(self) -> list[int]:
        return [rows.stop for rows in self.covered]

    def kept(self, ends: Sequence[int]) -> list[Rows]:
        """Rows that were there before this stripe, given where those of the stripe before end."""
        covered = self.covered
        return [Rows(min(r.first, end), end) for r, end in zip(covered, ends, strict=True)]


def plan_stripes(stages: Sequence[Stage], count: int) -> StripePlan:
    """The plan for `count` stripes of nearly equal height."""
    height = stages[-1].height
    cuts = [height * number // count for number in range(count + 1)]
    before = _reach(stages, Rows(0, cuts[1]), None)
    stripes = [Stripe((), (), _body(stages, before))]
    sizes = [[rows.height] for rows in before.covered]
    for outputs in map(Rows._make, pairwise(cuts[1:])):
        reach = _reach(stages, outputs, before.ends)
        kept = reach.kept(before.ends)
        fresh = _fresh(stages, kept)
        starts = list(zip(before.covered, reach.covered, kept, strict=True))
        onward = [Keep(i, k, b.first, r.first) for i, (b, r, k) in enumerate(starts) if k]
        stripes.append(Stripe(_afresh(stages, fresh, kept), tuple(onward), _body(stages, reach)))
        for size, rows, first in zip(sizes, reach.covered, fresh, strict=True):
            size += [rows.height, first.height]
        before = reach
    return StripePlan(tuple(stages), tuple(stripes), tuple(map(max, sizes)))


def _reach(stages: Sequence[Stage], outputs: Rows, ends: Sequence[int] | None) -> _Reach:
    """What a stripe takes; rows up to `ends` are there already."""
    made, covered = [outputs], list[Rows]()
    for stage in reversed(range(1, len(stages))):
        rows = stages[stage].reads(made[0])
        covered.insert(0, rows)
        end = rows.first if ends is None else ends[stage - 1]
        made.insert(0, Rows(max(rows.first, end), rows.stop))
    return _Reach(made, covered)


def _body(stages: Sequence[Stage], reach: _Reach) -> tuple[Step, ...]:
    steps: list[Step] = []
    starts = [0, *(rows.first for rows in reach.covered), 0]
    for number, rows in enumerate(reach.made):
        steps += _made(stages, number, rows, starts)
    return tuple(steps)


def _fresh(stages: Sequence[Stage], kept: Sequence[Rows]) -> list[Rows]:
    """The rows of each stage but the last that it makes to have those that a stripe keeps."""
    fresh: list[Rows] = []
    read = kept[-1]
    for number in reversed(range(len(kept))):
        own = kept[number]
        rows = Rows(min(own.first, read.first), own.stop) if read else own
        fresh.insert(0, rows)
        read = stages[number].reads(rows)
    return fresh


def _afresh(
    stages: Sequence[Stage], fresh: Sequence[Rows], kept: Sequence[Rows]
) -> tuple[Step, ...]:
    steps: list[Step] = []
    starts = [0, *(rows.first for rows in fresh)]
    for number, rows in enumerate(fresh):
        steps += _made(stages, number, rows, starts)
    keeps = [Keep(i, k, f.first, k.first) for i, (f, k) in enumerate(zip(fresh, kept, strict=True))]
    return (*steps, *(keep for keep in keeps if keep.rows and keep.before != keep.after))


def _made(stages: Sequence[Stage], number: int, rows: Rows, starts: Sequence[int]) -> list[Step]:
    """Steps that fill a stage's buffer with rows; starts[n] is the first row that stage n reads."""
    source, target, inside = starts[number], starts[number + 1], rows.within(stages[number].height)
    steps: list[Step] = []
    if rows.first < min(rows.stop, 0):
        steps.append(Fill(number, Rows(rows.first, min(rows.stop, 0)), target))
    if inside:
        steps.append(Make(number, inside, source, target))
    if rows.stop > max(rows.first, stages[number].height):
        below = Rows(max(rows.first, stages[number].height), rows.stop)
        steps.append(Fill(number, below, target))
    return steps
