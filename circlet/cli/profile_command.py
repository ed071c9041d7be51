"""`circlet profile`: where the time of a network goes, by the operators of its file."""

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
    options_of,
    precision_option,
    print_json,
)
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.profile import ProfileRequest, profile_network
from circlet.profiling.export import FORMATS


@click.command(cls=CircletCommand, name="profile")
@click.argument("model", type=InputFile())
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=InputFile(),
    help="Picture, sound, .npy, .npz or .raw; once per input, in order, or one .npz for all. "
    "Without: random data.",
)
@click.option("--threads", type=click.IntRange(1), help="Default: the cores that may be used.")
@click.option(
    "--runs", type=click.IntRange(1), help="Runs to time; default: as many as take a second."
)
@click.option(
    "--format",
    "form",
    default="table",
    show_default=True,
    type=click.Choice(["table", *FORMATS]),
    help="markdown and snpe are ONE's; trace is Chrome's and Perfetto's.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File for --format.")
@click.option("--trace", type=click.Path(path_type=Path), help="File for a Chrome trace as well.")
@click.option("--top", type=click.IntRange(1), help="The slowest operators, so many of them.")
@click.option(
    "--tensors", multiple=True, metavar="NAME", help="Show an intermediate tensor of this name."
)
@click.option(
    "--save-tensors",
    type=click.Path(path_type=Path),
    help="Write the values of --tensors to this .npz or .json.",
)
@click.option("--no-roofline", is_flag=True, help="Do not measure what this machine could do.")
@backend_option
@click.option("--signature", default="", help="Entry point to run; default: the first graph.")
@click.option("--target", default="native", show_default=True, help="What to compile for.")
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@click.option("--no-cache", is_flag=True, help="Compile anew and keep nothing.")
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, top: int | None, **options: object) -> None:
    """Time every kernel call of MODEL, and say where the time goes by its own operators.

    A kernel that computes several operators has its time divided among them by what they cost:
    their multiply-accumulates and other arithmetic, or the bytes that they move where none of them
    computes. All rows, with that of the time between kernels, add up to the whole run.
    """
    request = _request(options)
    with working("profiling the network"):
        report = profile_network(request)
    if as_json:
        print_json({**report.profile.as_json(), "tensors": [asdict(t) for t in report.tensors]})
        return
    if report.text:
        if not report.output:
            click.echo(report.text, nl=False)
        return
    from circlet.cli.render_profile import show_profile

    show_profile(report, top)


def _request(options: dict[str, object]) -> ProfileRequest:
    options["cache"] = not options.pop("no_cache")
    options["roofline"] = not options.pop("no_roofline")
    wanted = options_of(options)
    return ProfileRequest(**options, options=wanted)  # type: ignore[arg-type]
