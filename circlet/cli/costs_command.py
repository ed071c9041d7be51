"""`circlet costs`: what operators cost on each backend, measured and predicted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    json_option,
    level_option,
    max_memory_option,
    options_of,
    precision_option,
    print_json,
)
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.costs import CostsRequest, costs_of


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    """Numbers of threads between commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 1 << 16 for part in parts):
        raise click.BadParameter("give numbers of 1 or more, separated by commas")
    return tuple(dict.fromkeys(map(int, parts)))


@click.command(cls=CircletCommand, name="costs")
@click.argument("models", type=InputFile(), nargs=-1, metavar="[MODEL]...")
@click.option(
    "--backend",
    "backends",
    default="",
    callback=lambda ctx, param, text: tuple(filter(None, map(str.strip, text.split(",")))),
    help="Backends, separated by commas; default: all native ones that work here.",
)
@click.option(
    "--threads", default="1", show_default=True, callback=_numbers, help="Such as 1 or 1,2,4."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.01, 600),
    default=0.5,
    show_default=True,
    help="For the runs of each whole network.",
)
@click.option("--again", is_flag=True, help="Measure anew what is known already.")
@click.option("--check", is_flag=True, help="Say how far predictions miss what was measured.")
@click.option("--top", type=click.IntRange(1), help="The costliest operators, so many of them.")
@click.option(
    "--export",
    "exported",
    type=click.Path(path_type=Path),
    help="Write what is known as an exec_time.json, as ONE reads it.",
)
@click.option(
    "--import",
    "imported",
    type=click.Path(path_type=Path),
    help="Read an exec_time.json, for what nothing measured here tells.",
)
@click.option("--forget", is_flag=True, help="First delete all that is known of this machine.")
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, top: int | None, **options: object) -> None:
    """Say what the operators of each MODEL cost on each backend; measure what is not known yet.

    Measurements are kept with the machine and the versions that they hold for. Operators that were
    not measured are predicted from others of their kind.

    circlet costs net.tflite --backend cpu,litert --threads 1,2
    """
    chosen = options_of(options)
    with working("measuring costs"):
        found = costs_of(CostsRequest(options=chosen, **options))  # type: ignore[arg-type]
    if as_json:
        print_json(asdict(found))
        return
    from circlet.cli.render_costs import show_costs

    show_costs(found, top)
