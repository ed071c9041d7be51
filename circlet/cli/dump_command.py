"""`circlet dump`: what a model file holds, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import shown
from circlet.cli.standard_input import InputFile
from circlet.commands.stages import FORMATS, STAGES, StageRequest, dump_stage
from circlet.formats import load
from circlet.formats.dump import dump_data, dump_text
from circlet.ops.text import to_text


@click.command(cls=CircletCommand, name="dump")
@click.argument("model", type=InputFile())
@click.option("--text", "as_text", is_flag=True, help="Print the network as Circlet's IR text.")
@click.option("--data", is_flag=True, help="With --text: print long constants too.")
@click.option(
    "--stage",
    type=click.Choice(STAGES),
    help="Print a stage in ONE's form: the model, the lowered graph with the backend of each "
    "operator, or the plan with its steps and memory.",
)
@click.option("--format", type=click.Choice(FORMATS), help="With --stage: text, or GraphViz.")
@click.option("--constants", is_flag=True, help="With --format dot: draw constants too.")
@json_option
def command(
    model: Path,
    as_text: bool,
    data: bool,
    stage: str | None,
    format: str | None,
    constants: bool,
    as_json: bool,
) -> None:
    """Print what MODEL holds.

    The tables of a .tflite or .circle file are printed in the layout of ONE's tfldump and
    circledump; --text and --stage print .onnx files as well.
    """
    _check_usage(as_text, data, stage, format, constants)
    if stage is not None:
        found = dump_stage(StageRequest(model, stage, format or "text", constants))
        if as_json:
            print_json(vars(found))
        else:
            click.echo(shown(found.text), nl=False)
    elif as_json:
        print_json({"text": to_text(load(model), data=data)} if as_text else dump_data(model))
    else:
        text = to_text(load(model), data=data) if as_text else dump_text(model)
        click.echo(shown(text), nl=False)


def _check_usage(
    as_text: bool, data: bool, stage: str | None, format: str | None, constants: bool
) -> None:
    if data and not as_text:
        raise click.UsageError("--data needs --text")
    if as_text and stage is not None:
        raise click.UsageError("--text and --stage exclude each other")
    if format is not None and stage is None:
        raise click.UsageError("--format needs --stage")
    if constants and format != "dot":
        raise click.UsageError("--constants needs --format dot")
