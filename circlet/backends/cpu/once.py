"""What of a partition depends on nothing that a run is given: it runs once, before the first run.

`circlet.ops.lasting` tells storage and lowerings which tensors will last. Steps are looked at when
they are there: those that pack what lasts run once as well, whoever's they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from circlet.backends.cpu.control import Goto, Label
from circlet.backends.cpu.lowering import KernelCall, TensorRef
from circlet.backends.cpu.storage import RESIDENT, Buffer
from circlet.ir import Op, Tensor
from circlet.ops import is_pure

Step = KernelCall | Goto
BufferOf = Callable[[Tensor], Buffer]


class Ordered(NamedTuple):
    """Steps of which the first `once` run once, and where labels stand among them."""

    steps: list[Step]
    labels: dict[Label, int]
    once: int


def once_first(
    steps: Sequence[Step],
    labels: Mapping[Label, int],
    inside: Collection[Op],
    buffer_of: BufferOf,
) -> Ordered:
    """Put steps that depend on no run first, and what they leave for others into resident memory.

    A step runs once if it writes, and everything that it touches is written by such steps alone.
    Each is put as late as those that need it allow, so that little is alive at a time.
    """
    touched = [_Touched.by(step, buffer_of) for step in steps]
    once = _once(steps, touched, inside)
    if not once:
        return Ordered(list(steps), dict(labels), 0)
    rest = [number for number in range(len(steps)) if number not in once]
    read = {buffer for number in rest for buffer in touched[number].all}
    for buffer in {buffer for number in once for buffer in touched[number].written} & read:
        buffer.space = RESIDENT
    order = [*_late(sorted(once), touched), *rest]
    places = {number: place for place, number in enumerate(rest, len(once))}
    moved = {label: _place(number, places, len(steps)) for label, number in labels.items()}
    return Ordered([steps[number] for number in order], moved, len(once))


def _place(number: int, places: Mapping[int, int], count: int) -> int:
    """Where the first step now is that was at a place or behind it, and does not run once."""
    return next((places[n] for n in range(number, count) if n in places), count)


class _Touched(NamedTuple):
    """The buffers that a step reads or writes, and those that it writes."""

    all: frozenset[Buffer]
    written: frozenset[Buffer]

    @staticmethod
    def by(step: Step, buffer_of: BufferOf) -> _Touched:
        if isinstance(step, Goto):
            flag = step.unless
            read = [] if flag is None or flag.is_constant else [buffer_of(flag)]
            return _Touched(frozenset(read), frozenset())
        written = frozenset(map(buffer_of, step.writes))
        read = [buffer_of(ref.tensor) for ref in step.operands if isinstance(ref, TensorRef)]
        return _Touched(written.union(read), written)


def _once(steps: Sequence[Step], touched: Sequence[_Touched], inside: Collection[Op]) -> set[int]:
    """The steps that run once: all may, until something that they touch says otherwise."""
    users: dict[Buffer, list[int]] = defaultdict(list)
    for number, buffers in enumerate(touched):
        for buffer in buffers.all:
            users[buffer].append(number)
    made = {buffer for buffers in touched for buffer in buffers.written}
    waiting = [buffer for buffer in users if buffer.space != "arena" or buffer not in made]
    found = set(range(len(steps)))
    for number, step in enumerate(steps):
        if not (touched[number].written and _may_run_once(step, inside)):
            found.discard(number)
            waiting += touched[number].written
    while waiting:
        for number in users.pop(waiting.pop(), ()):
            if number in found:
                found.remove(number)
                waiting += touched[number].written
    return found


def _may_run_once(step: Step, inside: Collection[Op]) -> bool:
    return isinstance(step, KernelCall) and step.op not in inside and is_pure(step.op)


def _late(once: Sequence[int], touched: Sequence[_Touched]) -> Iterator[int]:
    """The steps that run once, each behind those that it needs; those that nobody needs last."""
    needs = _needs(once, touched)
    done: set[int] = set()
    lasts = [n for n in once if any(b.space == RESIDENT for b in touched[n].written)]
    waiting = [*reversed(once), *reversed(lasts)]
    while waiting:
        number = waiting[-1]
        missing = sorted((n for n in needs[number] if n not in done), reverse=True)
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if number not in done:
            done.add(number)
            yield number


def _needs(once: Sequence[int], touched: Sequence[_Touched]) -> dict[int, set[int]]:
    """For each step those that must be done before: who wrote, or still reads, what it touches."""
    writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = defaultdict(list)
    needs: dict[int, set[int]] = {}
    for number in once:
        buffers = touched[number]
        needs[number] = {writer[buffer] for buffer in buffers.all if buffer in writer}
        for buffer in buffers.written:
            needs[number].update(readers.pop(buffer, ()))
            writer[buffer] = number
        for buffer in buffers.all - buffers.written:
            readers[buffer].append(number)
    return needs
