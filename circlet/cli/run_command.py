"""`circlet run`: a network in, the answer out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_of_option,
    backend_option,
    executor_option,
    fallback_option,
    json_option,
    level_option,
    max_memory_option,
    one_config_option,
    options_of,
    precision_option,
    print_json,
    strict_option,
)
from circlet.cli.picture_options import picture_options, pixels_of
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.run import RunRequest, Trust, run_network
from circlet.formats.features import NAMES
from circlet.formats.sound import SoundOptions
from circlet.options import VERIFY


@click.command(cls=CircletCommand, name="run")
@click.argument("model", required=False, type=InputFile())
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=InputFile(),
    help="Picture, sound, .npy, .npz, .raw, or - for standard input; once per input, in order, or "
    "one .npz for all. Without: random data.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="Text file, one label a line. Default: those packed with the model.",
)
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="Best classes.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write the outputs to this .npz or .json; a single one to .npy, .csv or .raw, too.",
)
@click.option("--threads", type=click.IntRange(1), help="Default: the cores that may be used.")
@backend_option
@backend_of_option
@one_config_option
@executor_option
@fallback_option
@strict_option
@click.option("--signature", default="", help="Entry point to run; default: the first graph.")
@click.option("--target", default="native", show_default=True, help="What to compile for.")
@level_option(show_default="O2, or the artifact's")
@precision_option(show_default="f32, or the artifact's")
@click.option("--no-cache", is_flag=True, help="Compile anew and keep nothing.")
@click.option("--artifact", is_flag=True, help="MODEL is an artifact: execute the code in it.")
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    type=click.Path(path_type=Path),
    help="PEM file of a key; one of those given must have signed the artifact.",
)
@click.option("--digest", default="", help="What `circlet inspect` must say of the artifact.")
@click.option(
    "--verify",
    type=click.Choice(VERIFY),
    default=VERIFY[0],
    show_default=True,
    help="When hashes of weights are checked.",
)
@picture_options
@click.option(
    "--rate",
    default=16000,
    show_default=True,
    type=click.IntRange(1),
    help="Samples per second that the network wants of a sound.",
)
@click.option("--start", default=0.0, type=click.FloatRange(0), help="Seconds of a sound to skip.")
@click.option(
    "--features",
    type=click.Choice(NAMES),
    help="What to compute from a sound; else by the input's shape and range.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Of random data."
)
@click.option("--repeat", default=0, type=click.IntRange(0), help="Timed runs after the first.")
@click.option("--warmup", default=0, type=click.IntRange(0), help="Untimed runs before those.")
@click.option("--delay", default=0.0, type=click.FloatRange(0), help="Seconds between timed runs.")
@click.option("--placement", is_flag=True, help="Print which backend runs which operator.")
@click.option(
    "--placement-file",
    type=click.Path(path_type=Path),
    help="Place operators as this file says, which `circlet place -o` wrote.",
)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, placement: bool, **options: object) -> None:
    """Run MODEL (.tflite, .circle or .onnx); without one, the embedded digit classifier.

    A file whose name ends in .circlet, or any with --artifact, is an artifact, made by `circlet
    compile`: the code in it is executed, so take it only from whom you would take a program.
    """
    request = _request(options)
    with working("opening the network"):
        report = run_network(request)
    if as_json:
        print_json(asdict(report))
        return
    from circlet.cli.render import show_placement, show_run

    show_run(report)
    if placement:
        show_placement(report)


def _request(options: dict[str, object]) -> RunRequest:
    picked = dict(options)
    pixels = pixels_of(picked)
    features = str(picked.pop("features") or "")
    sound = SoundOptions(picked.pop("rate"), picked.pop("start"), features)  # type: ignore[arg-type]
    picked["cache"] = not picked.pop("no_cache")
    trust = Trust(
        bool(picked.pop("artifact")),
        str(picked.pop("digest")),
        picked.pop("public_keys"),  # type: ignore[arg-type]
    )
    chosen = options_of(picked)
    return RunRequest(pixels=pixels, sound=sound, trust=trust, options=chosen, **picked)  # type: ignore[arg-type]
