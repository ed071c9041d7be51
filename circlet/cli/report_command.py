"""`circlet report`: a page that shows a network."""

from __future__ import annotations

import json
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    duration,
    json_option,
    level_option,
    max_memory_option,
    options_of,
    precision_option,
    print_json,
)
from circlet.cli.console import say
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.report import Made, ReportRequest, make_report
from circlet.report.page import data_text
from circlet.words import counted


@click.command(cls=CircletCommand, name="report")
@click.argument("sources", nargs=-1, required=True, type=InputFile(), metavar="MODEL [OTHER]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="Where the page goes.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=InputFile(),
    help="Picture, sound, .npy, .npz or .raw; once per input, in order, or one .npz for all. "
    "Without: random data.",
)
@click.option(
    "--runs",
    type=click.IntRange(0),
    help="Timed runs; 0 neither compiles nor runs. Default: as many as take about a second.",
)
@click.option("--threads", type=click.IntRange(1), help="Default: the cores that may be used.")
@click.option(
    "--front",
    type=click.Path(path_type=Path),
    help="Show this front of MODEL's placements, which `circlet pareto -o` wrote.",
)
@backend_option
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, **options: object) -> None:
    """Write a page that shows MODEL: graph, times, memory, placement; it needs no network.

    With OTHER, a second model, the page compares the two. Both may also be pages that this command
    wrote before. With --json, what the page shows is printed, too.
    """
    picked = dict(options)
    chosen = options_of(picked)
    with working("making the report"):
        made = make_report(ReportRequest(options=chosen, **picked))  # type: ignore[arg-type]
    if as_json:
        print_json(json.loads(data_text(made.reports, made.comparison)))
        return
    _show(made)


def _show(made: Made) -> None:
    say(f"{made.output}: {made.size_bytes:,} bytes; open it in a browser")
    for report in made.reports:
        count = counted(len(report.source.operators), "operator")
        fused = (
            counted(len(report.optimised.operators), "fused operator") if report.optimised else ""
        )
        after = f", {fused}" if fused else ""
        time = f", {duration(report.timing.run_us / 1e6)} a run" if report.timing else ""
        say(f"  {report.title}: {count}{after}{time}")
        if report.unsupported:
            say(
                f"  {counted(len(report.unsupported), 'operator')} cannot be run; the page says why"
            )
