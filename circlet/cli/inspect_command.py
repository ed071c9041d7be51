"""`circlet inspect`: what a network costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.artifact.file import MAGIC, is_artifact
from circlet.cli.common import (
    CircletCommand,
    backend_of_option,
    backend_option,
    given_options,
    json_option,
    level_option,
    max_memory_option,
    one_config_option,
    precision_option,
    print_json,
)
from circlet.cli.render_artifact import show_artifact
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.inspect import inspect_model
from circlet.commands.inspect_artifact import inspect_artifact
from circlet.errors import InputError
from circlet.limits import Limits
from circlet.options import Options, PlacementRules, Shapes
from circlet.runtime.one_options import with_one_settings
from circlet.stored import stored


@click.command(cls=CircletCommand, name="inspect")
@click.argument("model", type=InputFile())
@click.option("--target", default="native", show_default=True, help="What to plan for.")
@backend_option
@backend_of_option
@one_config_option
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@click.option("--operators", is_flag=True, help="List every operator, not only kinds.")
@click.option("--tensors", is_flag=True, help="List every tensor, not only inputs and outputs.")
@shapes_option()
@max_memory_option
@json_option
def command(
    model: Path,
    target: str,
    backends: tuple[str, ...],
    backend_of: PlacementRules,
    one_config: Path | None,
    level: str,
    precision: str,
    operators: bool,
    tensors: bool,
    shapes: Shapes,
    limits: Limits,
    as_json: bool,
) -> None:
    """Say what MODEL (.tflite, .circle or .onnx) costs: operators, memory, weights, placement.

    Nothing is compiled or run. Operators, tensors and weights are those of the file; memory and
    placement are those of the optimised network. MODEL may also be an artifact, which tells its
    targets, inputs, outputs, partitions and tuning.
    """
    if is_artifact(stored(model).read(0, len(MAGIC))):
        _refuse_options(given_options(), model)
        show_artifact(inspect_artifact(model), as_json=as_json)
        return
    options = Options(
        backends,
        target=target,
        level=level,
        precision=precision,
        limits=limits,
        shapes=shapes,
        backend_of=backend_of,
    )
    found = inspect_model(model, with_one_settings(options, one_config).of_session())
    if as_json:
        unsupported = [entry._asdict() for entry in found.unsupported]
        print_json({**asdict(found), "unsupported": unsupported})
        return
    from circlet.cli.render_inspection import show_inspection

    show_inspection(found, every_operator=operators, every_tensor=tensors)


def _refuse_options(given: list[str], artifact: Path) -> None:
    meant_for_models = [option for option in given if option != "--json"]
    if meant_for_models:
        raise InputError(
            "an artifact was planned when it was compiled",
            where=str(artifact),
            why=f"{', '.join(meant_for_models)} would change nothing",
            fix="inspect the model that it was made of, or leave these options out",
        )
