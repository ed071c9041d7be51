"""What `circlet optimize` did, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from circlet.cli.common import duration
from circlet.cli.console import console, line, say, show_table
from circlet.commands.optimize import BisectReport, OptimizeReport, PassRow
from circlet.passes.bisect import Culprit
from circlet.words import counted

_TOTALS = {
    "operators": "operators",
    "macs": "multiply-accumulates",
    "bytes_moved": "bytes moved",
    "constant_bytes": "bytes of constants",
}
_NUMBERS = frozenset({"before", "after", "removed", "added", "changed", "runs", "time"})


def show_report(report: OptimizeReport, *, times: bool, changes: bool) -> None:
    """The files, what the network costs, and what each pass changed."""
    for printed in report.printed:
        say(f"; after {printed.name}, round {printed.round}", printed.text.rstrip("\n"))
    out = console()
    sizes = f"{report.size_bytes:,} bytes, {report.source_bytes:,} before"
    line(out, f"{report.output}: {report.format}, {sizes}")
    pairs = zip(_TOTALS.values(), report.before, report.after, strict=True)
    show_table(
        out,
        ("network", "before", "after"),
        [(name, f"{before:,}", f"{after:,}") for name, before, after in pairs],
        numbers=_NUMBERS,
    )
    busy = [row for row in report.passes if row.removed or row.added or row.changed]
    shown = report.passes if times else busy
    if shown:
        out.print()
        _show_rows(report, shown, times=times)
    for row in busy if changes else ():
        for text in _changes(row):
            line(out, text)
    line(out, _ending(report))
    for name in report.dropped:
        line(out, f"left out, as it goes by the numbers of operators: metadata {name}")


def show_passes(rows: Sequence[Mapping[str, object]]) -> None:
    """Every pass: what it does, the levels of sessions and of files, whether results stay equal."""
    out = console()
    cells = [
        (
            str(row["name"]),
            str(row["summary"]),
            _levels(row["levels"]),
            _levels(row["file_levels"]),
            _exactness(row),
        )
        for row in rows
    ]
    show_table(out, ("pass", "what it does", "sessions", "files", "results"), cells)


def _exactness(row: Mapping[str, object]) -> str:
    tolerance = row["tolerance"]
    assert isinstance(tolerance, float)
    if not tolerance:
        return "bit-exact"
    return f"within {tolerance:g}" if isfinite(tolerance) else "others"


def _levels(levels: object) -> str:
    assert isinstance(levels, tuple)
    return ", ".join(levels) or "-"


def show_bisection(found: BisectReport) -> None:
    """Every step with its difference, and the culprit."""
    out = console()
    rows = [
        (
            step.name,
            str(step.round),
            str(step.changes),
            f"{step.difference:.3g}",
            f"{step.whole_difference:.3g}",
        )
        for step in found.steps
    ]
    headings = ("pass", "round", "changed", "difference", "from the start")
    show_table(out, headings, rows, numbers=(*_NUMBERS, "round", "difference", "from the start"))
    for text in [f"inputs: {', '.join(dict.fromkeys(found.inputs))}", *_verdict(found.culprit)]:
        line(out, text)


def _verdict(culprit: Culprit | None) -> Iterator[str]:
    if culprit is None:
        yield "no pass changes results beyond what is allowed"
        return
    step = culprit.step
    yield (
        f"{step.name}, round {step.round}, is the first to change results: "
        f"by {step.difference:.3g}, {step.whole_difference:.3g} from the start; "
        f"{step.allowed:.3g} is allowed"
    )
    if culprit.tensor:
        yield f"  first at {culprit.tensor}, by {culprit.tensor_difference:.3g}"
    for name in culprit.operators:
        yield f"  {name}"
    yield f"  applied before: {', '.join(culprit.applied) or 'none'}"


def _show_rows(report: OptimizeReport, rows: Sequence[PassRow], *, times: bool) -> None:
    headings: tuple[str, ...] = ("pass", "removed", "added", "changed")
    cells: list[tuple[str, ...]] = [
        (row.name, *(f"{len(part):,}" for part in (row.removed, row.added, row.changed)))
        for row in rows
    ]
    if times:
        headings = (*headings, "runs", "time")
        pairs = zip(cells, rows, strict=True)
        cells = [(*known, str(row.runs), duration(row.seconds)) for known, row in pairs]
        cells.append(("all", "", "", "", "", duration(report.seconds)))
    show_table(console(), headings, cells, numbers=_NUMBERS)


def _changes(row: PassRow) -> Iterator[str]:
    yield f"{row.name}:"
    for sign, ops in (("-", row.removed), ("+", row.added), ("~", row.changed)):
        yield from (f"  {sign} {op}" for op in ops)


def _ending(report: OptimizeReport) -> str:
    if not report.passes:
        return "no pass ran"
    rounds = counted(report.rounds, "round")
    if report.settled:
        return f"{rounds}, the last of which changed nothing"
    return f"{rounds}, the last of which still changed something; --rounds allows more"
