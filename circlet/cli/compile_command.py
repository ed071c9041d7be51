"""`circlet compile`: a network in, an artifact out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    backend_of_option,
    backend_option,
    duration,
    executor_option,
    given_options,
    json_option,
    level_option,
    max_memory_option,
    one_config_option,
    options_of,
    precision_option,
    print_json,
    strict_option,
)
from circlet.cli.console import say
from circlet.cli.progress import working
from circlet.cli.render_artifact import show_tuning
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.compile import CompileRequest, compile_to_file


@click.command(cls=CircletCommand, name="compile")
@click.argument("model", required=False, type=InputFile())
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write."
)
@click.option(
    "--target",
    default="native",
    show_default=True,
    help="native, baseline, generic, or architecture+feature+...; several separated by commas.",
)
@backend_option
@backend_of_option
@one_config_option
@executor_option
@strict_option
@click.option("--signature", default="", help="Entry point to compile; default: the first graph.")
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@click.option("--tune", is_flag=True, help="Measure which kernels are fastest on this machine.")
@click.option(
    "--tune-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    help="How long --tune measures, for each target.",
)
@click.option(
    "--without-compiler",
    is_flag=True,
    help="Where there is no C compiler, make an artifact whose operators run in numpy.",
)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, tune: bool, tune_seconds: float, **options: object) -> None:
    """Compile MODEL (.tflite, .circle, .onnx; without one, the embedded sample) to an artifact."""
    if not tune and "--tune-seconds" in given_options():
        raise click.UsageError("--tune-seconds needs --tune")
    options["tune_seconds"] = tune_seconds if tune else 0.0
    request = CompileRequest(options=options_of(options), **options)  # type: ignore[arg-type]
    with working("reading and planning"):
        report = compile_to_file(request)
    if as_json:
        print_json(asdict(report))
        return
    say(f"{report.artifact}: {report.size_bytes:,} bytes in {duration(report.seconds)}")
    say(f"for {', '.join(report.targets)}")
    say(f"{report.native_ops} of {report.ops} operators in native code")
    say(f"arena {report.arena_bytes:,} bytes, lower bound {report.lower_bound_bytes:,}")
    for tuning in report.tuning:
        show_tuning(tuning)
