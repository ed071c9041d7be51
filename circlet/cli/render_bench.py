"""Engines on one network as a table for people."""

from __future__ import annotations

from circlet.cli.common import duration
from circlet.cli.console import console, line, show_table
from circlet.commands.bench import PEERS, BenchReport, EngineRow
from circlet.comparison.ratios import Interval
from circlet.words import counted

_NUMBERS = frozenset({"median", "95 %", "ratio", "arrays in, out", "open", "difference"})


def show_bench(report: BenchReport) -> None:
    """A row per engine, those that are missing, and whether the figures can be trusted."""
    out = console()
    line(
        out,
        f"{report.model}: {report.kind}, {report.macs:,} multiply-accumulates and other "
        f"arithmetic, {counted(report.threads, 'thread')}, {counted(report.rounds, 'round')}",
    )
    times = ("median", "95 %", "ratio", "arrays in, out", "open")
    headings = ("engine", "version", *times, "difference")
    show_table(out, headings, list(map(_cells, report.rows)), numbers=_NUMBERS)
    for row in report.rows:
        if row.note:
            line(out, f"{row.engine}: {row.note}")
    for engine, why in report.refused.items():
        line(out, f"{engine} did not run it: {why}")
    for name, command in report.missing.items():
        line(out, f"{PEERS[name].title} is not installed: {command}")
    verdict = f"noisy: {report.noise}" if report.noise else "not noisy"
    line(out, verdict)


def _cells(row: EngineRow) -> tuple[str, ...]:
    return (
        row.engine,
        row.version,
        duration(row.us.middle / 1e6),
        f"{duration(row.us.low / 1e6)} to {duration(row.us.high / 1e6)}",
        _ratio(row.ratio),
        duration(row.convenient_us / 1e6),
        f"{row.open_ms:.0f} ms",
        "" if row.difference is None else f"{row.difference:.1g}",
    )


def _ratio(ratio: Interval | None) -> str:
    return "" if ratio is None else f"{ratio.middle:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
