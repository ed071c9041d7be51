"""Which partitions wait for which, what is to run first, and how many threads each is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet.runtime.executor import LoadedPartition


@dataclass(frozen=True)
class Schedule:
    """The order that values ask of partitions, by their positions in the plan.

    Attributes:
        waits: How many partitions each waits for.
        readers: Those that wait for each.
        ranks: The work on the longest path from the start of each to the end of the network.
        work: Of each.
    """

    waits: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]
    work: tuple[int, ...]

    def order(self) -> list[int]:
        """All partitions in turn: of those that are ready, the one of the highest rank first."""
        waits, order = list(self.waits), []
        ready = [(-self.ranks[n], n) for n, count in enumerate(waits) if not count]
        heapify(ready)
        while ready:
            number = heappop(ready)[1]
            order.append(number)
            for reader in self.readers[number]:
                waits[reader] -= 1
                if not waits[reader]:
                    heappush(ready, (-self.ranks[reader], reader))
        return order

    def shares(self, threads: int, width: int) -> list[int]:
        """Threads for each, so that those that run at a time have not more than there are.

        Plays a run in which `width` partitions at most run at a time, for as long as their work.
        """
        beside = [1] * len(self.waits)
        waits, now = list(self.waits), 0
        ready = [(-self.ranks[n], n) for n, count in enumerate(waits) if not count]
        heapify(ready)
        running: list[tuple[int, int]] = []
        while ready or running:
            while ready and len(running) < width:
                number = heappop(ready)[1]
                heappush(running, (now + max(1, self.work[number]), number))
            for _, number in running:
                beside[number] = max(beside[number], len(running))
            now, ended = heappop(running)
            for reader in self.readers[ended]:
                waits[reader] -= 1
                if not waits[reader]:
                    heappush(ready, (-self.ranks[reader], reader))
        return [max(1, threads // count) for count in beside]


def schedule(
    partitions: Sequence[LoadedPartition],
    state: Collection[int],
    further: Iterable[tuple[int, int]] = (),
) -> Schedule:
    """The schedule of a plan.

    Args:
        state: Values that live on from run to run: partitions that use one keep their order.
        further: Pairs of partitions of which the second one waits for the first one as well.
    """
    makers: dict[int, int] = {}
    readers: list[set[int]] = [set() for _ in partitions]
    for number, part in enumerate(partitions):
        for value in (*part.inputs, *part.outputs):
            if value in makers and makers[value] != number:
                readers[makers[value]].add(number)
            if value in state:
                makers[value] = number
        makers.update(dict.fromkeys(part.outputs, number))
    for first, second in further:
        readers[first].add(second)
    waits = [0] * len(partitions)
    work = [int(part.entry.get("work", 1)) for part in partitions]
    ranks = [0] * len(partitions)
    for number in reversed(range(len(partitions))):
        ranks[number] = work[number] + max((ranks[r] for r in readers[number]), default=0)
        for reader in readers[number]:
            waits[reader] += 1
    rows = tuple(tuple(sorted(row)) for row in readers)
    return Schedule(tuple(waits), rows, tuple(ranks), tuple(work))
