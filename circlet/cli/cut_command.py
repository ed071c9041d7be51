"""`circlet cut`: a part of a network as a network of its own."""

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
from circlet.cli.shapes import shape_text
from circlet.cli.standard_input import InputFile
from circlet.commands.cut import CutRequest, cut_model
from circlet.limits import Limits
from circlet.words import counted, shortened


@click.command(cls=CircletCommand, name="cut")
@click.argument("model", type=InputFile())
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "starts",
    multiple=True,
    metavar="NAME",
    help="First operator, or a tensor that becomes an input. Default: the network's inputs.",
)
@click.option(
    "--to",
    "ends",
    multiple=True,
    metavar="NAME",
    help="Last operator, or a tensor that becomes an output. Default: the network's outputs.",
)
@max_memory_option
@json_option
def command(
    model: Path,
    output: Path,
    starts: tuple[str, ...],
    ends: tuple[str, ...],
    limits: Limits,
    as_json: bool,
) -> None:
    """Write the part of MODEL between two places to OUTPUT (.tflite, .circle or .onnx).

    A NAME is that of an operator where there is one, else of a tensor: operators of .tflite files
    bear the names of their first results. `op:NAME` and `tensor:NAME` say which is meant, and '#3'
    is the fourth operator. Both options may be given several times. Operators keep their origin.
    """
    report = cut_model(CutRequest(model, output, starts, ends, limits))
    if as_json:
        print_json(asdict(report))
        return
    kept = f"{report.ops:,} of {counted(report.all_ops, 'operator')}"
    say(f"{report.output}: {report.format}, {report.size_bytes:,} bytes, {kept}")
    for role, rows in (("input", report.inputs), ("output", report.outputs)):
        say(
            *(f"{role}  {shortened(row.name)}  {row.dtype} {shape_text(row.shape)}" for row in rows)
        )
