"""The exact front of a problem on its model, by dynamic programming over segments.

A label is the time and memory of a placement up to a cut; labels with the same backends at the cut
are comparable, and those that another beats are dropped. What backends hold for being used at all
is counted by solving the problem for each set of backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from circlet.placement.problem import Problem
from circlet.placement.search.front import non_dominated
from circlet.placement.search.objective import Objective
from circlet.placement.search.segments import Segment, costs_of, segments_of

State = tuple[int, int]
"""The backend of the open partition at a cut, and that of the group at the cut."""
_START: State = (-1, -1)
_WIDE = 40  # groups of a segment from which on not even a part of its placements is tried in turn
_RATIOS = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class ModelFront:
    """Placements that no other beats on the model.

    Attributes:
        choices: (F, G) numbers of backends, by rising time.
        points: (F, 2) time in nanoseconds, memory in bytes.
        is_exact: Whether no placement was left out: all segments were enumerated, and no labels
            thinned out.
    """

    choices: np.ndarray
    points: np.ndarray
    is_exact: bool


@dataclass(frozen=True)
class Effort:
    """How hard to look.

    Attributes:
        assignments: How many placements of one segment are tried.
        labels: How many labels a cut may have for each pair of backends.
        work: How many steps of placements are looked at in all, about; where that does not
            reach, fewer placements are tried.
    """

    assignments: int = 20_000
    labels: int = 50_000
    work: int = 100_000_000


USUAL_EFFORT = Effort()
QUICK_EFFORT = Effort(1 << 10, 300, 20_000_000)
_LEAST = 64  # placements of one segment that are tried in any case
_CALL = 500  # placements that could be looked at in the time that it takes to look at any
_SUMS = 4_000_000  # labels and rows that are added up at a time


def exact_front(problem: Problem, effort: Effort = USUAL_EFFORT) -> ModelFront:
    """The front of a problem whose backends take turns.

    Where they overlap, times do not add up: then the front is that of the sums, judged by the
    schedule, and not exact.
    """
    segments = segments_of(problem)
    found = []
    subsets = list(_subsets(problem))
    effort, is_enough = _bounded(problem, segments, len(subsets), effort)
    for subset in subsets if is_enough else [s for s in subsets if len(s) in _few(problem)]:
        allowed = problem.allowed & np.isin(np.arange(len(problem.backends)), subset)
        if allowed.any(1).all():
            found.append(_solved(problem, segments, allowed, effort))
    choices = np.concatenate([choices for choices, _ in found])
    exact = (
        is_enough
        and all(is_exact for _, is_exact in found)
        and problem.setting.executor != "parallel"
    )
    points = Objective(problem).points(choices)
    kept = non_dominated(points)
    return ModelFront(choices[kept], points[kept], exact)


def _subsets(problem: Problem) -> Iterator[tuple[int, ...]]:
    """The sets of backends that differ in what they hold."""
    count = len(problem.backends)
    if not problem.fixed_bytes.any():
        yield tuple(range(count))
        return
    for size in range(1, count + 1):
        yield from combinations(range(count), size)


def _few(problem: Problem) -> tuple[int, ...]:
    """Sizes of the sets of backends that are looked at where there is no time for all."""
    return 1, 2, len(problem.backends)


def _bounded(
    problem: Problem, segments: Sequence[Segment], subsets: int, effort: Effort
) -> tuple[Effort, bool]:
    """An effort whose work is what was asked for, and whether it reaches for all sets."""
    sizes = [len(segment.inner) + 1 for segment in segments if len(segment.inner) <= _WIDE]

    def work(assignments: int) -> int:
        rows = [min(assignments, len(problem.backends) ** size) for size in sizes]
        return subsets * sum((n + _CALL) * size * size for n, size in zip(rows, sizes, strict=True))

    assignments = effort.assignments
    while assignments > _LEAST and work(assignments) > effort.work:
        assignments //= 2
    return replace(effort, assignments=assignments), work(assignments) <= effort.work


@dataclass(frozen=True)
class _Labels:
    """Labels of one state at a cut: costs, and where each came from.

    Attributes:
        costs: (L, 2) time and memory.
        origins: (L,) numbers of the states before, by the order of the cut before.
        before: (L,) numbers of the labels there.
        rows: (L, I) the backends of the segment between, as `Segment.involved` lists its groups.
    """

    costs: np.ndarray
    origins: np.ndarray
    before: np.ndarray
    rows: np.ndarray


def _solved(
    problem: Problem, segments: Sequence[Segment], allowed: np.ndarray, effort: Effort
) -> tuple[np.ndarray, bool]:
    """(F, G) the front's placements over some backends, and whether it is exact."""
    none = np.zeros(1, np.int64)
    start = _Labels(np.zeros((1, 2)), none, none, np.zeros((1, 0), np.int64))
    cuts: list[dict[State, _Labels]] = [{_START: start}]
    exact = True
    for segment in segments:
        rows, is_whole = _rows(problem, segment, allowed, list(cuts[-1]), effort)
        states, is_complete = _joined(problem, segment, rows, cuts[-1], effort)
        exact &= is_whole and is_complete
        cuts.append(states)
    return _traced(problem, segments, cuts), exact


def _rows(
    problem: Problem,
    segment: Segment,
    allowed: np.ndarray,
    states: Sequence[State],
    effort: Effort,
) -> tuple[np.ndarray, bool]:
    """(N, 1 + I) the open partition's backend and those of a segment's groups, and whether all."""
    if len(segment.inner) > _WIDE:
        return _likely(problem, segment, allowed, states), False
    rows = np.array(sorted({s if segment.head >= 0 else (s[0],) for s in states}), np.int64)
    whole = True
    for group in segment.involved[1 if segment.head >= 0 else 0 :]:
        choices = np.flatnonzero(allowed[group])
        if len(rows) * len(choices) > effort.assignments:
            rows, whole = _best(problem, segment, rows, effort.assignments // 4), False
        rows = np.concatenate(
            [np.repeat(rows, len(choices), 0), np.tile(choices, len(rows))[:, None]], 1
        )
    return rows, whole


def _likely(
    problem: Problem, segment: Segment, allowed: np.ndarray, states: Sequence[State]
) -> np.ndarray:
    """Rows of a segment that is too wide to be tried: all that pays goes to a second backend.

    What pays is what takes less there by some ratio, for each two backends and several ratios.
    """
    time = np.where(allowed, problem.time_ns, np.inf)[list(segment.inner)]
    first = allowed[list(segment.inner)].argmax(1)
    found = []
    for one in range(len(problem.backends)):
        home = np.where(np.isfinite(time[:, one]), one, first)
        usual = np.take_along_axis(time, home[:, None], 1)[:, 0]
        for other in range(len(problem.backends)):
            found += [np.where(time[:, other] < r * usual, other, home) for r in _RATIOS]
    inner = np.unique(np.stack(found), axis=0)
    heads = sorted({s if segment.head >= 0 else (s[0],) for s in states})
    ends = [[int(b)] for b in np.flatnonzero(allowed[segment.next])] if segment.next >= 0 else [[]]
    rows = [[*head, *row, *end] for head in heads for row in inner.tolist() for end in ends]
    return np.array(rows, np.int64)


def _best(problem: Problem, segment: Segment, rows: np.ndarray, most: int) -> np.ndarray:
    """The most promising rows of those that agree in the backends at the cut."""
    most = max(most, 16)
    costs, _ = costs_of(problem, segment, rows[:, 0], rows[:, 1:])
    heads = rows[:, : 2 if segment.head >= 0 else 1]
    alike = np.unique(heads, axis=0)
    kept: list[np.ndarray] = []
    for head in alike:
        mine = np.flatnonzero((heads == head).all(1))
        share = max(1, most // len(alike))
        front = mine[non_dominated(costs[mine])][:share]
        rest = mine[np.argsort(costs[mine, 0], kind="stable")][:share]
        kept.append(np.unique(np.concatenate([front, rest])))
    return rows[np.concatenate(kept)]


def _joined(
    problem: Problem,
    segment: Segment,
    rows: np.ndarray,
    cut: Mapping[State, _Labels],
    effort: Effort,
) -> tuple[dict[State, _Labels], bool]:
    """The labels at the next cut, and whether none were thinned out."""
    costs, last = costs_of(problem, segment, rows[:, 0], rows[:, 1:])
    following = rows[:, -1] if segment.next >= 0 else np.full(len(rows), -1)
    last = last if segment.next >= 0 else following
    heads = rows[:, 1] if segment.head >= 0 else np.full(len(rows), -1)
    keys = np.stack([rows[:, 0], heads, last, following], 1)
    parts: dict[State, list[_Labels]] = {}
    complete = True
    numbers = {state: number for number, state in enumerate(cut)}
    for key, mine in _grouped(keys):
        mine = mine[non_dominated(costs[mine])]
        labels = cut.get((key[0], key[1]))
        if labels is None:
            continue
        before = _spread(len(labels.costs), max(1, _SUMS // len(mine)))
        complete &= len(before) == len(labels.costs)
        sums = (labels.costs[before][:, None] + costs[mine][None]).reshape(-1, 2)
        kept = non_dominated(sums)
        made = _Labels(
            sums[kept],
            np.full(len(kept), numbers[key[0], key[1]]),
            before[kept // len(mine)],
            rows[mine[kept % len(mine)], 1:],
        )
        parts.setdefault((key[2], key[3]), []).append(made)
    found = {state: _merged(made, effort.labels) for state, made in parts.items()}
    complete &= all(is_complete for _, is_complete in found.values())
    return {state: labels for state, (labels, _) in found.items()}, complete


def _grouped(keys: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Numbers of the rows with the same key, for each key."""
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(inverse.reshape(-1), minlength=len(unique)))
    for key, mine in zip(unique, np.split(order, ends[:-1]), strict=True):
        yield tuple(int(part) for part in key), mine


def _merged(parts: Sequence[_Labels], most: int) -> tuple[_Labels, bool]:
    """The labels that none beats, evenly thinned out where there are too many."""
    costs = np.concatenate([part.costs for part in parts])
    kept = non_dominated(costs)
    complete = len(kept) <= most
    if not complete:
        kept = kept[_spread(len(kept), most)]
    return _Labels(
        costs[kept],
        np.concatenate([part.origins for part in parts])[kept],
        np.concatenate([part.before for part in parts])[kept],
        np.concatenate([part.rows for part in parts])[kept],
    ), complete


def _spread(count: int, most: int) -> np.ndarray:
    """Numbers below a count, all or evenly so many of them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _traced(
    problem: Problem, segments: Sequence[Segment], cuts: Sequence[Mapping[State, _Labels]]
) -> np.ndarray:
    """(F, G) the placements behind the labels at the end."""
    (ending,) = cuts[-1].values()
    choices = np.full((len(ending.costs), len(problem.groups)), -1, np.int64)
    where = np.zeros(len(choices), np.int64)
    labels = np.arange(len(choices))
    for segment, cut in zip(reversed(segments), reversed(cuts), strict=False):
        states = list(cut.values())
        origins, before = np.zeros_like(where), np.zeros_like(labels)
        for number, state in enumerate(states):
            mine = np.flatnonzero(where == number)
            own = state.rows[labels[mine], : len(segment.own)]
            choices[np.ix_(mine, np.array(segment.own, np.int64))] = own
            origins[mine] = state.origins[labels[mine]]
            before[mine] = state.before[labels[mine]]
        where, labels = origins, before
    return choices
