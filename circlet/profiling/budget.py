"""A bound on a network's planned memory, and what would bring it below: all of it computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from circlet.backends.profiled import PlannedBlock
from circlet.compiler.template import Source
from circlet.errors import CircletError, LimitError
from circlet.options import Options
from circlet.plan.memory import alive_in, peak_of
from circlet.profiling.memory import MemoryReport, plan_memory

_LEVELS = ("O2", "Os", "O1")
_MOST_PARTS = 64
_MOST_TENSORS = 4


@dataclass(frozen=True)
class Suggestion:
    """A change, and the planned bytes with it.

    Attributes:
        kind: "level", "threads" or "split".
        text: What to do, in a sentence.
        planned_bytes: What the network would then need; for a split the least that it could.
        fits: Whether that is within the budget.
    """

    kind: str
    text: str
    planned_bytes: int
    fits: bool


def suggestions(
    source: Source, options: Options, report: MemoryReport, budget_bytes: int
) -> list[Suggestion]:
    """What brings a network's memory down, the greatest gain first; nothing that does not.

    Other levels are planned anew; fewer threads have less scratch memory; a split is the lower
    bound of the arena with the largest tensors at its peaks in so many parts, of which one is
    alive at a time: what a pass, or another network, could reach.
    """
    found = [
        *_levels(source, options, report),
        *_threads(report),
        *_split(report, budget_bytes),
    ]
    fitting = (
        Suggestion(kind, text, size, size <= budget_bytes)
        for kind, text, size in found
        if size < report.planned_bytes
    )
    return sorted(fitting, key=lambda one: one.planned_bytes)


def check_budget(
    source: Source, options: Options, report: MemoryReport, budget_bytes: int
) -> list[Suggestion]:
    """LimitError, with suggestions, where the plan needs more than the budget; else none."""
    if report.planned_bytes <= budget_bytes:
        return []
    found = suggestions(source, options, report, budget_bytes)
    peak = report.peak
    where = report.model if peak is None else f"{peak.peak_op} ({peak.peak_kind})"
    raise LimitError(
        "the network's memory is above the budget",
        where=where,
        why=f"it needs {report.planned_bytes:,} bytes: arena {report.arena_bytes:,}, "
        f"scratch {report.scratch_bytes:,}, arrays {report.values_bytes:,}"
        + (f", computed once {report.once_bytes:,}" if report.once_bytes else "")
        + "; "
        f"the budget is {budget_bytes:,}",
        fix="; ".join(one.text for one in found) or "nothing that is known would lower it",
    )


def _levels(
    source: Source, options: Options, report: MemoryReport
) -> Iterator[tuple[str, str, int]]:
    for level in _LEVELS:
        if level == report.level:
            continue
        try:
            other = plan_memory(source, options._replace(level=level), report.threads)
        except CircletError:
            continue
        yield _told("level", f"level {level} (-O {level})", report, other)
        if other.threads > 1 and other.scratch_bytes:
            text = f"level {level} with one thread (-O {level} --threads 1)"
            yield _told("level", text, report, replace(other, threads=1))


def _threads(report: MemoryReport) -> Iterator[tuple[str, str, int]]:
    if report.threads > 1 and report.scratch_bytes:
        yield _told("threads", "one thread (--threads 1)", report, replace(report, threads=1))


def _told(kind: str, what: str, report: MemoryReport, other: MemoryReport) -> tuple[str, str, int]:
    size = other.planned_bytes
    return kind, f"{what} needs {size:,} bytes, {report.planned_bytes - size:,} less", size


def _split(report: MemoryReport, budget_bytes: int) -> Iterator[tuple[str, str, int]]:
    """The largest tensor at the peak in twice as many parts, again and again.

    Until the arena is within the budget, or no further part helps.
    """
    peak = report.peak
    if peak is None or not peak.map.blocks:
        return
    rest = report.planned_bytes - peak.arena_bytes
    parts: dict[str, int] = {}
    blocks = list(peak.map.blocks)
    step, size = peak_of(blocks)
    while size + rest > budget_bytes and len(parts) <= _MOST_TENSORS:
        largest = max(alive_in(blocks, step), key=lambda block: block.size_bytes)
        count = 2 * parts.get(largest.name, 1)
        halved = [_halved(block, largest.name) for block in blocks]
        step, less = peak_of(halved)
        if less >= size or count > _MOST_PARTS:
            break
        parts[largest.name], blocks, size = count, halved, less
    if parts:
        listed = ", ".join(f"{name} in {count}" for name, count in parts.items())
        text = f"in parts of which one is alive at a time, {listed}: no less than {size + rest:,}"
        yield "split", f"{text} bytes", size + rest


def _halved(block: PlannedBlock, name: str) -> PlannedBlock:
    if block.name != name:
        return block
    return replace(block, size_bytes=-(-block.size_bytes // 2))
