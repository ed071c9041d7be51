"""`circlet map`: from operators of the file to kernel calls, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    json_option,
    level_option,
    max_memory_option,
    precision_option,
    print_json,
)
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.map import MapRequest, map_model
from circlet.limits import Limits
from circlet.options import Options, Shapes


@click.command(cls=CircletCommand, name="map")
@click.argument("model", type=InputFile())
@click.option("--find", default="", metavar="TEXT", help="Only operators with this in their names.")
@click.option(
    "--origins",
    type=InputFile(),
    help="JSON that says what MODEL's operators descend from, as `circlet convert` writes it.",
)
@click.option("--target", default="native", show_default=True, help="What to plan for.")
@backend_option
@level_option(default="O2", show_default=True)
@shapes_option()
@precision_option(default="f32", show_default=True)
@max_memory_option
@json_option
def command(
    model: Path,
    find: str,
    origins: Path | None,
    target: str,
    backends: tuple[str, ...],
    level: str,
    shapes: Shapes,
    precision: str,
    limits: Limits,
    as_json: bool,
) -> None:
    """Say what becomes of each operator of MODEL (.tflite, .circle or .onnx), and the way back.

    The first table goes from the operators of the file to those that run in their place, the second
    from these, with their partitions, backends and kernel calls, to the operators of the file. For
    a file that was optimised before, these are those of the first file of the chain. Nothing is
    compiled or run.
    """
    options = Options(
        backends, target=target, level=level, precision=precision, limits=limits, shapes=shapes
    )
    report = map_model(MapRequest(model, options.of_session(), origins, find))
    if as_json:
        print_json(asdict(report))
        return
    from circlet.cli.render_map import show_map

    show_map(report)
