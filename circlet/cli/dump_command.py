"""`circlet dump`: what a model file holds."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import shown
from circlet.cli.standard_input import InputFile
from circlet.formats import load
from circlet.formats.dump import dump_data, dump_text
from circlet.ops.text import to_text


@click.command(cls=CircletCommand, name="dump")
@click.argument("model", type=InputFile())
@click.option("--text", "as_text", is_flag=True, help="Print the network as Circlet's IR text.")
@click.option("--data", is_flag=True, help="With --text: print long constants too.")
@json_option
def command(model: Path, as_text: bool, data: bool, as_json: bool) -> None:
    """Print MODEL (.tflite or .circle) in the layout of ONE's tfldump and circledump."""
    if data and not as_text:
        raise click.UsageError("--data needs --text")
    if as_json:
        print_json({"text": to_text(load(model), data=data)} if as_text else dump_data(model))
    else:
        text = to_text(load(model), data=data) if as_text else dump_text(model)
        click.echo(shown(text), nl=False)
