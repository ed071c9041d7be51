"""The map of a network as two tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from circlet.cli.console import console, line, show_table
from circlet.commands.map import MapReport, OperatorRow, SourceRow
from circlet.words import counted, shortened

_SHOWN = 6


def show_map(report: MapReport) -> None:
    """From source operators to what runs, then back."""
    out = console()
    sources = counted(len(report.sources), "source operator")
    fused = counted(len(report.operators), "fused operator")
    line(out, f"{report.model} at {report.level}: {sources}, {fused}")
    by_number = {row.number: row for row in report.operators}
    rows = [_source_cells(row, by_number) for row in report.sources]
    out.print()
    show_table(out, ("source", "kind", "runs as"), rows, title="From the file to what runs")
    rows = [_operator_cells(row) for row in report.operators]
    headings: tuple[str, ...] = ("#", "kind", "partition", "kernels", "does the work of")
    if any(row.refused for row in report.operators):
        headings = (*headings, "refused by")
    out.print()
    title = "From what runs back to the file"
    show_table(out, headings, [row[: len(headings)] for row in rows], title=title, numbers={"#"})


def _source_cells(row: SourceRow, by_number: dict[int, OperatorRow]) -> tuple[str, ...]:
    runs = [by_number[number] for number in row.operators if number in by_number]
    text = ", ".join(f"#{found.number} {found.kind}" for found in runs)
    return shortened(row.name), " ".join(_times(row.kinds)), text or f"({row.why_none})"


def _operator_cells(row: OperatorRow) -> tuple[str, ...]:
    return (
        f"#{row.number}",
        row.kind,
        f"{row.partition} {row.backend}",
        ", ".join(_times(row.calls)) or "-",
        _joined(row.sources),
        "; ".join(f"{name}: {why}" for name, why in row.refused),
    )


def _joined(sources: Sequence[str]) -> str:
    """The first few sources, and how many more there are."""
    more = f" and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else ""
    return " + ".join(map(shortened, sources[:_SHOWN])) + more


def _times(words: Iterable[str]) -> list[str]:
    """Words, those that come several times once and with how often."""
    counts = Counter(words)
    return [word if count == 1 else f"{word} x{count}" for word, count in counts.items()]
