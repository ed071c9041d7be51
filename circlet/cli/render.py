"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from circlet.cli.common import counted, duration
from circlet.cli.console import cell, console, line, say, show_table
from circlet.commands.answers import Answer, Detection
from circlet.commands.run import RunReport


def show_run(report: RunReport) -> None:
    """The answer first, then where the time went."""
    out = console()
    for warning in report.warnings:
        say(f"warning: {warning}", err=True)
    line(out, f"{report.model}  <-  {', '.join(report.inputs)}")
    if report.detections:
        _show_detections(out, report.detections)
    for item in () if report.detections else report.answers:
        _show_answer(out, item)
    if report.expected:
        line(out, f"the picture shows: {report.expected}")
    _show_time(out, report)


def _show_answer(out: Console, item: Answer) -> None:
    sizes = "x".join(map(str, item.shape)) or "scalar"
    line(out, f"{item.name}  {item.dtype}[{sizes}]")
    table = Table(box=None)
    if item.top:
        rows = [(str(best.index), best.label, f"{best.score:.4f}") for best in item.top]
        table = _classes(("score",), rows)
    elif item.shares:
        rows = [(str(part.index), part.label, f"{part.share:.1%}") for part in item.shares]
        table = _classes(("share",), rows)
    elif item.text:
        table.add_column("first strings")
        for text in item.text:
            table.add_row(cell(text))
    else:
        for heading in ("least", "most", "mean", "first values"):
            table.add_column(heading, justify="right")
        numbers = (item.minimum, item.maximum, item.mean)
        first = " ".join(f"{x:.4g}" for x in item.first)
        table.add_row(*(f"{x:.5g}" for x in numbers), first)
    out.print(table)


def _show_detections(out: Console, found: Sequence[Detection]) -> None:
    rows = [
        (str(item.index), item.label, f"{item.score:.4f}", *(f"{edge:.3f}" for edge in item.box))
        for item in found
    ]
    out.print(_classes(("score", "top", "left", "bottom", "right"), rows))


def _classes(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of classes: number, label where there are some, and what is known of each."""
    table, labelled = Table(box=None), any(label for _, label, *_ in rows)
    table.add_column("class", justify="right")
    if labelled:
        table.add_column("label")
    for heading in headings:
        table.add_column(heading, justify="right")
    for number, label, *figures in rows:
        table.add_row(number, *([cell(label)] if labelled else []), *figures)
    return table


def _show_time(out: Console, report: RunReport) -> None:
    names = {"compile": "compiled in", "cache": "found in the cache in", "load": "loaded in"}
    parts = [f"{names[key]} {duration(value)}" for key, value in report.seconds.items()]
    times = report.times
    parts.append(f"first run {duration(times.first_ms / 1e3)}")
    if times.repeats:
        fastest, slowest = duration(times.fastest_ms / 1e3), duration(times.slowest_ms / 1e3)
        median = duration(times.median_ms / 1e3)
        parts.append(f"median of {times.repeats} runs {median} ({fastest} to {slowest})")
    line(out, ", ".join(parts))
    threads = counted(report.threads, "thread")
    native = f"{report.native_ops} of {report.ops} operators in native code"
    rounded = "" if report.precision == "f32" else f", float products in {report.precision}"
    line(out, f"{threads}, {native}{rounded}")
    if report.native_ops < report.ops:
        line(out, "the others ran in numpy; --placement says which and why")


def show_placement(report: RunReport) -> None:
    """One row per operator, with the reasons of those that did not go native."""
    is_mixed = any(row["refused"] for row in report.placement)
    headings = ("operator", "backend", "source", *(["refused by"] if is_mixed else []))
    rows = []
    for row in report.placement:
        refused = row["refused"]
        assert isinstance(refused, list)
        reasons = "; ".join(f"{name}: {why}" for name, why in refused)
        cells = (str(row["kind"]), str(row["backend"]), str(row["source"]))
        rows.append((*cells, reasons) if is_mixed else cells)
    show_table(console(), headings, rows)
