"""A network and what its operators cost as problems, one for each setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.costs.model import HOST
from circlet.errors import InputError, PlacementError, UnsupportedOp, UnsupportedOpsError
from circlet.ir import Op, Tensor
from circlet.ops import dtype_text
from circlet.pareto.groups import dependencies, groups_of, sources_of
from circlet.placement.problem import Costs, Crossing, Group, Problem, Setting, Step


@dataclass(frozen=True)
class Level:
    """A network as the passes of a level leave it.

    Attributes:
        name: The level.
        ops: The ops that are placed, in order.
        costs: What they cost at this level.
    """

    name: str
    ops: tuple[Op, ...]
    costs: Costs


def problems_of(
    levels: Sequence[Level],
    backends: Sequence[str],
    settings: Sequence[Setting],
    fixed_bytes: Callable[[str], float] = lambda _: 0.0,
) -> list[Problem]:
    """A problem for each setting, all over the same groups.

    Args:
        levels: One for each level that the settings name.
        fixed_bytes: What a backend holds as soon as it is used at all.

    Raises:
        UnsupportedOpsError: Ops that none of the backends takes, all in one report.
    """
    names = groups_of([level.ops for level in levels])
    by_name = {level.name: _Builder(level, names, backends) for level in levels}
    fixed = np.array([fixed_bytes(backend) for backend in backends], float)
    return [by_name[setting.level].problem(setting, fixed) for setting in settings]


class _Builder:
    """What the problems of one level have in common."""

    def __init__(
        self, level: Level, names: Sequence[tuple[str, ...]], backends: Sequence[str]
    ) -> None:
        self._level, self._backends = level, tuple(backends)
        number_of = {source: number for number, names_ in enumerate(names) for source in names_}
        self._group_of = {op: number_of[sources_of(op)[0]] for op in level.ops}
        self._names = names
        self._values = _values(level.ops, self._group_of)
        self._steps = _steps(level.ops, self._group_of)
        self._hosted = _hosted(level.ops)

    def problem(self, setting: Setting, fixed: np.ndarray) -> Problem:
        """The problem of a setting."""
        costs, backends = self._level.costs, self._backends
        time, held, measured, reasons = self._operators(setting.threads)
        transfer = np.zeros((len(self._values), len(backends), len(backends)))
        for number, value in enumerate(self._values):
            for i, writer in enumerate(backends):
                for j, reader in enumerate(backends):
                    if i != j:
                        cost = costs.transfer_ns(value.size_bytes, writer, reader)
                        transfer[number, i, j] = cost
        return Problem(
            self._groups(time),
            backends,
            setting,
            time,
            held,
            self._steps,
            self._values,
            transfer,
            np.array([costs.partition_ns(backend) for backend in backends], float),
            fixed,
            float(_peak_bytes(self._level.ops)),
            reasons,
            measured,
        )

    def _operators(
        self, threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[tuple[int, int], str]]:
        """Times, bytes, whether times were measured, and why backends refuse groups."""
        shape = len(self._names), len(self._backends)
        time, held = np.zeros(shape), np.zeros(shape)
        measured = np.ones(shape, bool)
        reasons: dict[tuple[int, int], str] = {}
        costs = self._level.costs
        for op, group in self._group_of.items():
            for number, backend in enumerate(self._backends):
                try:
                    found = costs.operator_ns(op, backend, threads)
                except (PlacementError, InputError) as error:  # refused, or never measured
                    reasons.setdefault((group, number), f"{op.name} ({op.label}): {error.why}")
                    time[group, number] = np.inf
                    continue
                time[group, number] += max(found.ns, 0.0) + self._host_ns(op, backend)
                measured[group, number] &= found.measured
                held[group, number] += costs.operator_bytes(op, backend, threads)
        self._check(time, reasons)
        absent = [group for group in range(shape[0]) if group not in set(self._group_of.values())]
        time[absent, 1:] = np.inf  # passes of this level left nothing of them to place
        return time, held, measured, reasons

    def _host_ns(self, op: Op, backend: str) -> float:
        """The time of taking what the caller gives an op, and of giving back what it makes."""
        costs, (given, wanted) = self._level.costs, self._hosted.get(op, (0, 0))
        taken = costs.transfer_ns(given, HOST, backend) if given else 0.0
        return taken + (costs.transfer_ns(wanted, backend, HOST) if wanted else 0.0)

    def _check(self, time: np.ndarray, reasons: dict[tuple[int, int], str]) -> None:
        """See that each group has a backend that takes all of it."""
        homeless = set(np.flatnonzero(~np.isfinite(time).any(1)).tolist())
        if homeless:
            ops = [op for op, group in self._group_of.items() if group in homeless]
            why = {group: [r for (u, _), r in reasons.items() if u == group] for group in homeless}
            raise UnsupportedOpsError(
                [
                    UnsupportedOp(
                        op.name,
                        op.label,
                        op.version,
                        dtype_text(op),
                        "; ".join(dict.fromkeys(why[self._group_of[op]])),
                    )
                    for op in ops
                ]
            )

    def _groups(self, time: np.ndarray) -> tuple[Group, ...]:
        ops: list[list[Op]] = [[] for _ in self._names]
        for op, group in self._group_of.items():
            ops[group].append(op)
        return tuple(
            Group(names, members[0].label if members else "", _bytes_of(members))
            for names, members in zip(self._names, ops, strict=True)
        )


def _bytes_of(ops: Sequence[Op]) -> int:
    """All inputs and outputs of some ops, each once."""
    tensors = dict.fromkeys(t for op in ops for t in (*op.inputs, *op.outputs) if t is not None)
    return sum(tensor.size_bytes for tensor in tensors)


def _hosted(ops: Sequence[Op]) -> dict[Op, tuple[int, int]]:
    """Bytes of the network's inputs that an op is the first to read, and of results of its own.

    A result is what no op reads.
    """
    made = {tensor for op in ops for tensor in op.outputs}
    read: set[Tensor | None] = {tensor for op in ops for tensor in op.inputs}
    seen: set[Tensor] = set()
    found = {}
    for op in ops:
        given = {t for t in op.inputs if t is not None and not (t.is_constant or t.is_variable)}
        new = given - made - seen
        seen |= new
        wanted = [tensor for tensor in op.outputs if tensor not in read]
        sizes = sum(t.size_bytes for t in new), sum(t.size_bytes for t in wanted)
        found[op] = sizes
    return found


def _steps(ops: Sequence[Op], group_of: dict[Op, int]) -> tuple[Step, ...]:
    """The ops by their groups, in the order of the network; by groups where that is none."""
    position = {op: number for number, op in enumerate(ops)}
    in_order = all(position[a] < position[b] for a, b in dependencies(ops))
    order = ops if in_order else sorted(ops, key=lambda op: group_of[op])
    place = {op: number for number, op in enumerate(order)}
    after: list[set[int]] = [set() for _ in order]
    for first, second in dependencies(ops):
        after[place[second]].add(place[first])
    return tuple(
        Step(group_of[op], tuple(sorted(before))) for op, before in zip(order, after, strict=True)
    )


def _values(ops: Sequence[Op], group_of: dict[Op, int]) -> tuple[Crossing, ...]:
    """What groups hand on to others, in the order in which it is made."""
    readers: dict[Tensor, set[int]] = {}
    for op in ops:
        for tensor in op.inputs:
            if tensor is not None:
                readers.setdefault(tensor, set()).add(group_of[op])
    found = []
    for op in ops:
        for tensor in op.outputs:
            others = tuple(sorted(readers.get(tensor, set()) - {group_of[op]}))
            if others and not tensor.is_variable:
                found.append(Crossing(group_of[op], others, tensor.size_bytes))
    return tuple(found)


def _peak_bytes(ops: Sequence[Op]) -> int:
    """The most bytes of computed tensors that are alive while one op runs."""
    last = {t: i for i, op in enumerate(ops) for t in (*op.inputs, *op.outputs) if t is not None}
    alive, peak = 0, 0
    known: set[Tensor] = set()
    for index, op in enumerate(ops):
        new = [t for t in dict.fromkeys((*op.inputs, *op.outputs)) if t is not None]
        new = [t for t in new if not t.is_constant and t not in known]
        known.update(new)
        alive += sum(tensor.size_bytes for tensor in new)
        peak = max(peak, alive)
        ended = [t for t in known if last[t] == index]
        alive -= sum(tensor.size_bytes for tensor in ended)
        known.difference_update(ended)
    return peak
