"""`circlet convert`: one file format in, another out."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.cli.common import CircletCommand, counted, json_option, print_json
from circlet.cli.console import say
from circlet.cli.standard_input import InputFile
from circlet.formats.convert import convert


@click.command(cls=CircletCommand, name="convert")
@click.argument("source", type=InputFile())
@click.argument("target", type=click.Path(path_type=Path))
@json_option
def command(source: Path, target: Path, as_json: bool) -> None:
    """Write the network in SOURCE to TARGET, in the format of TARGET's suffix."""
    report = convert(source, target)
    if as_json:
        print_json(vars(report))
        return
    say(f"{report.target}: {report.format}, {report.size_bytes:,} bytes")
    counts = {"graph": report.graphs, "operator": report.ops, "tensor": report.tensors}
    say(", ".join(counted(count, noun) for noun, count in counts.items()))
