"""`circlet resize`: a network with other sizes of its inputs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    json_option,
    max_memory_option,
    print_json,
)
from circlet.cli.console import say
from circlet.cli.shapes import shape_text, shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.resize import ResizeRequest, resize_model
from circlet.limits import Limits
from circlet.options import Shapes
from circlet.words import counted, shortened


@click.command(cls=CircletCommand, name="resize")
@click.argument("model", type=InputFile())
@click.argument("output", type=click.Path(path_type=Path))
@shapes_option(required=True)
@max_memory_option
@json_option
def command(model: Path, output: Path, shapes: Shapes, limits: Limits, as_json: bool) -> None:
    """Write MODEL to OUTPUT (.tflite, .circle or .onnx) with other sizes of its inputs.

    The sizes of all other tensors follow from them. A network that has sizes in its constants, such
    as the target of a reshape, takes only what goes with these; the error names the operator.
    """
    report = resize_model(ResizeRequest(model, output, shapes, limits))
    if as_json:
        print_json(asdict(report))
        return
    changed = f"{counted(report.changed, 'tensor')} of other sizes"
    say(f"{report.output}: {report.format}, {report.size_bytes:,} bytes, {changed}")
    for row in report.ends:
        sizes = f"{shape_text(row.before)} -> {shape_text(row.after)}"
        say(f"{row.role}  {shortened(row.name)}  {sizes}")
