"""Reports as text for people."""

from __future__ import annotations

from rich.console import Console

from circlet.cli.common import duration
from circlet.cli.console import console, line, say, show_table
from circlet.cli.render_answers import show_answer, show_detections, show_pixels, show_poses
from circlet.commands.run import RunReport
from circlet.options import DEFAULT_EXECUTOR
from circlet.words import counted


def show_run(report: RunReport) -> None:
    """The answer first, then where the time went."""
    out = console()
    for warning in report.warnings:
        say(f"warning: {warning}", err=True)
    entry = f"  (signature {report.signature})" if report.signature else ""
    line(out, f"{report.model}{entry}  <-  {', '.join(report.inputs)}")
    show_pixels(out, report)
    if report.kind == "pose":
        show_poses(out, report)
    elif report.kind:
        show_detections(out, report)
    for item in () if report.kind else report.answers:
        show_answer(out, item)
    if report.drawing:
        line(out, f"drawn to {report.drawing}")
    if report.expected:
        line(out, f"the picture shows: {report.expected}")
    _show_time(out, report)


def _show_time(out: Console, report: RunReport) -> None:
    names = {
        "compile": "compiled in",
        "cache": "found in the cache in",
        "resize": "made ready for these sizes in",
        "load": "loaded in",
    }
    parts = [f"{names[key]} {duration(value)}" for key, value in report.seconds.items()]
    times = report.times
    parts.append(f"first run {duration(times.first_ms / 1e3)}")
    if times.repeats:
        fastest, slowest = duration(times.fastest_ms / 1e3), duration(times.slowest_ms / 1e3)
        median = duration(times.median_ms / 1e3)
        parts.append(f"median of {counted(times.repeats, 'run')} {median} ({fastest} to {slowest})")
    line(out, ", ".join(parts))
    threads = counted(report.threads, "thread")
    native = f"{report.native_ops} of {report.ops} operators in native code"
    rounded = "" if report.precision == "f32" else f", float products in {report.precision}"
    line(out, f"{threads}, {native}{rounded}")
    if report.executor != DEFAULT_EXECUTOR:
        line(out, f"executor {report.executor}, {counted(report.partitions, 'partition')}")
    if report.native_ops < report.ops:
        line(out, "the others ran in numpy; --placement says which and why")


def show_placement(report: RunReport) -> None:
    """A row for each part that was placed, with the reasons of those that did not go native."""
    is_mixed = any(row["refused"] for row in report.placement)
    headings = ("kind", "backend", "source", *(["refused by"] if is_mixed else []))
    rows = []
    for row in report.placement:
        refused = row["refused"]
        assert isinstance(refused, list)
        reasons = "; ".join(f"{name}: {why}" for name, why in refused)
        cells = (str(row["kind"]), str(row["backend"]), str(row["source"]))
        rows.append((*cells, reasons) if is_mixed else cells)
    show_table(console(), headings, rows)
