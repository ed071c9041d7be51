"""What a network answered, as text for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from circlet.cli.console import cell, line, print_table
from circlet.commands.answers import Answer
from circlet.commands.run import RunReport


def show_pixels(out: Console, report: RunReport) -> None:
    """How pictures were mapped, who says so, and what to try where it was guessed."""
    for mapping in report.pixels:
        if mapping is None:
            continue
        inverted = ", inverted" if mapping.is_inverted else ""
        inverted += ", from signed bytes" if mapping.is_signed else ""
        why = f": {mapping.why}" if mapping.why else ""
        line(out, f"pixels become {mapping.range}{inverted} ({mapping.certainty}{why})")
    if report.alternative:
        line(out, f"if the answer is wrong, try: {report.alternative}")


def show_answer(out: Console, item: Answer) -> None:
    """One output: its best classes, the shares of a map, strings, or numbers."""
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
    elif math.prod(item.shape) == 1:
        table.add_column("value", justify="right")
        table.add_row(f"{item.first[0]:.5g}")
    else:
        first = " ".join(f"{x:.4g}" for x in item.first)
        is_all = len(item.first) == math.prod(item.shape)
        numbers = () if is_all else (item.minimum, item.maximum, item.mean)
        names = ("values",) if is_all else ("least", "most", "mean", "first values")
        for heading in names:
            table.add_column(heading, justify="right")
        table.add_row(*(f"{x:.5g}" for x in numbers), first)
    print_table(out, table)
    if item.labels_are_guessed:
        line(out, f"labels are {item.labels}, guessed by the network's sizes; --labels has others")


def show_detections(out: Console, report: RunReport) -> None:
    """Objects with their boxes, or that there are none."""
    rows = [
        (str(item.index), item.label, f"{item.score:.4f}", *(f"{edge:.3f}" for edge in item.box))
        for item in report.detections
    ]
    if rows:
        print_table(out, _classes(("score", "top", "left", "bottom", "right"), rows))
    else:
        line(out, f"nothing is found with a score of {report.least_score:g} or more{_best(report)}")


def show_poses(out: Console, report: RunReport) -> None:
    """Key points of each person."""
    if not report.poses:
        line(out, f"nobody is found with a score of {report.least_score:g} or more")
    for number, pose in enumerate(report.poses, 1):
        line(
            out,
            f"person {number} of {len(report.poses)}, score {pose.score:.4f}",
        )
        table = Table(box=None)
        table.add_column("point")
        for heading in ("score", "y", "x"):
            table.add_column(heading, justify="right")
        for point in pose.points:
            table.add_row(cell(point.name), *(f"{n:.3f}" for n in (point.score, point.y, point.x)))
        print_table(out, table)


def _best(report: RunReport) -> str:
    best = report.best_left_out
    return "" if best is None else f"; the best has {best:.4f} (--min-score)"


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
