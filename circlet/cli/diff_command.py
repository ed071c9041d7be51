"""`circlet diff`: two networks operator by operator."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    json_option,
    max_memory_option,
    print_json,
)
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.diff import DiffRequest, diff_models
from circlet.commands.diff_values import ValueRequest
from circlet.limits import Limits
from circlet.options import Options, Shapes


@click.command(cls=CircletCommand, name="diff")
@click.argument("first", type=InputFile())
@click.argument("second", type=InputFile())
@click.option(
    "--data",
    multiple=True,
    type=InputFile(),
    help="Compare values, too, on this input: once per input of FIRST, or one .npz for all.",
)
@click.option("--random", "is_random", is_flag=True, help="Compare values, too, on random data.")
@click.option("--seed", default=0, show_default=True, help="Of the random data.")
@click.option(
    "--runs", default=1, show_default=True, type=click.IntRange(1), help="Runs on random data."
)
@click.option(
    "--tolerance",
    default=1e-4,
    show_default=True,
    type=click.FloatRange(min=0),
    help="How far values may be apart, as a share of a tensor's largest magnitude.",
)
@click.option(
    "--top", default=5, show_default=True, type=click.IntRange(1), help="Best outputs compared."
)
@click.option("--every", is_flag=True, help="Show operators and tensors that are the same, too.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the networks differ.")
@shapes_option()
@backend_option
@max_memory_option
@json_option
def command(
    first: Path,
    second: Path,
    data: tuple[Path, ...],
    is_random: bool,
    seed: int,
    runs: int,
    tolerance: float,
    top: int,
    every: bool,
    exit_code: bool,
    shapes: Shapes,
    backends: tuple[str, ...],
    limits: Limits,
    as_json: bool,
) -> None:
    """Compare two networks, of any formats: operators, attributes, weights, costs, and values.

    Operators are recognised by what they descend from, then by name, by weights, and by what they
    are connected with. With --data or --random both networks run at O0, and the first operator
    whose values differ is named. Integers of equal quantisation must be equal.
    """
    if data and is_random:
        raise click.UsageError("give --data or --random, not both")
    wanted = ValueRequest(data, seed, runs, tolerance, top) if data or is_random else None
    options = Options(backends, limits=limits, shapes=shapes)
    with working("comparing"):
        report = diff_models(DiffRequest(first, second, options, wanted))
    if as_json:
        print_json(asdict(report))
    else:
        from circlet.cli.render_diff import show_diff

        show_diff(report, every=every)
    if exit_code and not report.is_same:
        click.get_current_context().exit(1)
