"""`circlet convert`: one file format in, another out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import say
from circlet.cli.standard_input import InputFile
from circlet.commands.storing import make_storable
from circlet.formats.convert import convert
from circlet.formats.registry import written_format
from circlet.words import counted


@click.command(cls=CircletCommand, name="convert")
@click.argument("source", type=InputFile())
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--origins",
    type=click.Path(path_type=Path),
    help="Also write which source operators each operator descends from to this JSON file.",
)
@json_option
def command(source: Path, target: Path, origins: Path | None, as_json: bool) -> None:
    """Write the network in SOURCE to TARGET, in the format of TARGET's suffix.

    SOURCE and TARGET are .tflite, .circle or .onnx files. Operators keep the names that they had in
    SOURCE, such as those of .onnx nodes: `circlet map TARGET` shows them. Paddings by amounts,
    which .tflite and .circle files do not know, become operators of their own there. The counts
    are of TARGET, as `circlet inspect TARGET` gives them.
    """
    prepare = partial(make_storable, format=written_format(target).name)
    report = convert(source, target, origins=origins, prepare=prepare)
    if as_json:
        print_json(vars(report))
        return
    say(f"{report.target}: {report.format}, {report.size_bytes:,} bytes")
    counts = {"graph": report.graphs, "operator": report.ops, "tensor": report.tensors}
    say(", ".join(counted(count, noun) for noun, count in counts.items()))
