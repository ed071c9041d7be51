"""What a network needs of memory, as tables for people."""

from __future__ import annotations

from rich.console import Console

from circlet.cli.console import console, line, show_table
from circlet.commands.memory import MemoryAnswer
from circlet.profiling.memory import MemoryReport, PartitionMemory
from circlet.profiling.phases import ProcessMemory
from circlet.words import counted

_SHOWN_TENSORS = 8
_NUMBERS = frozenset({"bytes", "steps", "ms", "RSS KiB", "HWM KiB", "PSS KiB"})


def show_memory(answer: MemoryAnswer) -> None:
    """The plan, what is alive at its peak, weights, the process, and advice."""
    out = console()
    _show_plan(out, answer.plan)
    for part in answer.plan.partitions:
        _show_partition(out, part)
    _show_weights(out, answer)
    if answer.process is not None:
        _show_process(out, answer.process)
    for one in answer.suggestions:
        line(out, f"{'fits: ' if one.fits and answer.budget_bytes else ''}{one.text}")


def _show_plan(out: Console, plan: MemoryReport) -> None:
    line(
        out,
        f"{plan.model}: a run needs {plan.planned_bytes:,} bytes at {plan.level} with "
        f"{counted(plan.threads, 'thread')}: arena {plan.arena_bytes:,}, scratch "
        f"{plan.scratch_bytes:,}, arrays {plan.values_bytes:,}"
        + (f", computed once {plan.once_bytes:,}" if plan.once_bytes else ""),
    )
    if plan.unplanned:
        count = counted(len(plan.unplanned), "fused operator")
        line(out, f"besides what numpy allocates for {count}, the first {plan.unplanned[0]}")


def _show_partition(out: Console, part: PartitionMemory) -> None:
    line(
        out,
        f"partition {part.partition} ({counted(part.ops, 'fused operator')}, {part.backend}): "
        f"arena {part.arena_bytes:,} bytes by {part.planner}, "
        f"lower bound {part.lower_bound_bytes:,}, "
        f"gap {part.gap_bytes:,}",
    )
    if part.once:
        name, size = part.once[0]
        what = counted(len(part.once), "result")
        more = f"{what} of no input, computed once for all runs: {part.once_bytes:,} bytes"
        line(out, f"{more}, of which {name} {size:,}")
    if not part.alive:
        return
    rows = [
        (f"{t.size_bytes:,}", f"{t.first}-{t.last}", t.name, t.made_by.replace(t.name, ""))
        for t in part.alive[:_SHOWN_TENSORS]
    ]
    line(out, f"the peak is at {part.peak_op} ({part.peak_kind}), where these are alive:")
    headings = ("bytes", "steps", "tensor", "made by")
    shown = 4 if any(row[3] for row in rows) else 3
    show_table(out, headings[:shown], [row[:shown] for row in rows], numbers=_NUMBERS)
    if len(part.alive) > _SHOWN_TENSORS:
        line(out, f"and {len(part.alive) - _SHOWN_TENSORS} smaller")


def _show_weights(out: Console, answer: MemoryAnswer) -> None:
    plan, process = answer.plan, answer.process
    resident = "" if process is None else f", in memory {process.resident_bytes:,}"
    line(
        out,
        f"weights: {plan.file_weights_bytes:,} bytes in the file, packed for kernels "
        f"{plan.packed_bytes:,}{resident}; none are mapped from a file",
    )


def _show_process(out: Console, process: ProcessMemory) -> None:
    rows = [
        (
            row.phase,
            f"{row.ms:.1f}",
            f"{row.rss_bytes >> 10:,}",
            f"{row.hwm_bytes >> 10:,}",
            f"{row.pss_bytes >> 10:,}",
        )
        for row in process.phases
    ]
    headings = ("phase", "ms", "RSS KiB", "HWM KiB", "PSS KiB")
    line(out, "a process of its own:")
    show_table(out, headings, rows, numbers=_NUMBERS)
    line(out, f"used at the peak: {process.used_peak_bytes >> 10:,} KiB above Python and Circlet")
