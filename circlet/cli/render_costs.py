"""Costs as text for people."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console

from circlet.cli.common import duration
from circlet.cli.console import console, line, show_table
from circlet.commands.costs import CostsReport, NetworkCosts, OperatorCost
from circlet.words import counted

_NUMBERS = ("time", "nine in ten", "share", "holds", "partitions", "operators", "median", "90 %")


def show_costs(report: CostsReport, top: int | None) -> None:
    """Operators on each backend, then what lies between them, then how far predictions miss."""
    out = console()
    for network in report.networks:
        _show_operators(out, network, top)
        _show_wholes(out, network)
    _show_between(out, report)
    _show_misses(out, report)
    _show_exchange(out, report)
    if report.warning:
        line(out, f"warning: {report.warning} while this was measured; --again measures anew")
    line(out, f"kept in {report.database}")


def _show_operators(out: Console, network: NetworkCosts, top: int | None) -> None:
    for (backend, threads), group in groupby(
        network.operators, lambda row: (row.backend, row.threads)
    ):
        rows = list(group)
        if top is not None:
            rows = sorted(rows, key=lambda row: -(row.us or 0.0))[:top]
        title = f"{network.model} on {backend}, {counted(threads, 'thread')}"
        headings = ("kind", "source", "time", "nine in ten", "share", "holds", "how")
        show_table(out, headings, [_cells(row) for row in rows], title=title, numbers=_NUMBERS)


def _cells(row: OperatorCost) -> tuple[str, ...]:
    if row.us is None or row.low_us is None or row.high_us is None:
        return (row.kind, row.source, "", "", "", "", f"refused: {row.refused}")
    times = _time((row.us, row.low_us, row.high_us))
    how = "measured" if row.measured else "predicted"
    return (row.kind, row.source, *times, f"{row.share:.1%}", f"{row.bytes:,}", how)


def _time(us: tuple[float, float, float] | None) -> tuple[str, str]:
    if us is None:
        return "", ""
    median, low, high = (duration(value / 1e6) for value in us)
    return median, f"{low} to {high}"


def _show_wholes(out: Console, network: NetworkCosts) -> None:
    rows = []
    for whole in network.wholes:
        head = (whole.backend, str(whole.threads), str(whole.partitions))
        ratio = ""
        if whole.predicted_us and whole.measured_us:
            ratio = f"{whole.predicted_us[0] / whole.measured_us[0]:.2f}"
        predicted, measured = _time(whole.predicted_us), _time(whole.measured_us)
        rows.append((*head, *predicted, *measured, ratio, whole.why))
    times = ("predicted", "nine in ten", "measured", "middle runs")
    headings = ("backend", "threads", "partitions", *times, "ratio", "")
    numbers = (*_NUMBERS, "threads", "predicted", "measured", "middle runs", "ratio")
    show_table(out, headings, rows, title=f"{network.model} as a whole", numbers=numbers)


def _show_between(out: Console, report: CostsReport) -> None:
    if report.partitions:
        headings = ("backend", "threads", "a partition", "ns a byte", "factor")
        rows = [
            (p.backend, str(p.threads), duration(p.ns / 1e9), *_figures(p.ns_per_byte, p.factor))
            for p in report.partitions
        ]
        show_table(out, headings, rows, title="partitions", numbers=headings[1:])
    if report.transfers:
        headings = ("writer", "reader", "a transfer", "ns a byte", "of 1 MiB")
        cells = [
            (
                t.writer,
                t.reader,
                duration(t.ns / 1e9),
                f"{t.ns_per_byte:.3f}",
                duration((t.ns + t.ns_per_byte * 2**20) / 1e9),
            )
            for t in report.transfers
        ]
        show_table(out, headings, cells, title="transfers", numbers=headings[2:])


def _figures(per_byte: float, factor: float) -> tuple[str, str]:
    return f"{per_byte:.3f}", f"{factor:.2f}"


def _show_misses(out: Console, report: CostsReport) -> None:
    if not report.misses:
        return
    headings = ("family", "backend", "threads", "unknown", "operators", "median", "90 %")
    rows = [
        (
            miss.family,
            miss.backend,
            str(miss.threads),
            f"its {miss.left_out}" if miss.left_out == "network" else "itself",
            str(miss.count),
            f"{miss.median:.2f}",
            f"{miss.worst:.2f}",
        )
        for miss in report.misses
    ]
    show_table(out, headings, rows, title="predicted / measured", numbers=(*_NUMBERS, "threads"))


def _show_exchange(out: Console, report: CostsReport) -> None:
    if report.forgotten is not None:
        line(out, f"forgotten: {counted(report.forgotten, 'context')} of this machine")
    if report.imported is not None:
        line(out, f"imported: {counted(report.imported, 'time')}")
    if report.skipped:
        line(out, f"not imported, as no such backend is here: {', '.join(report.skipped)}")
    if report.exported:
        line(out, f"written: {report.exported}")
