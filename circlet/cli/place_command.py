"""`circlet place`: where operators run, and what crosses between backends."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote

import click

from circlet.cli.common import (
    CircletCommand,
    backend_of_option,
    backend_option,
    executor_option,
    json_option,
    level_option,
    max_memory_option,
    one_config_option,
    options_of,
    precision_option,
    print_json,
    strict_option,
)
from circlet.cli.console import console, say, show_table
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.pareto import mib_text
from circlet.commands.place import Placement, PlaceRequest, place_network
from circlet.pareto.find import SearchRequest
from circlet.pareto.settings import EvaluationSettings
from circlet.words import counted


@click.command(cls=CircletCommand, name="place")
@click.argument("model", type=InputFile())
@backend_option
@backend_of_option
@one_config_option
@executor_option
@strict_option
@click.option("--target", default="native", show_default=True, help="What to plan for.")
@level_option(default="O2", show_default=True)
@precision_option(default="f32", show_default=True)
@click.option(
    "--placement",
    "--placement-file",
    "placement",
    type=click.Path(path_type=Path),
    help="Place as this file says, which -o wrote; --backend-of goes before it.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the placement here.")
@click.option(
    "--against", type=click.Path(path_type=Path), help="Say how it differs from this file."
)
@click.option(
    "--front", type=click.Path(path_type=Path), help="Place as a point of this front is placed."
)
@click.option("--search", is_flag=True, help="Find a front now, and place as a point of it is.")
@click.option(
    "--best",
    default="time",
    show_default=True,
    help="Which point: time, memory, or from 0 (time) to 1 (memory).",
)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, search: bool, **options: object) -> None:
    """Place the operators of MODEL by preference and by rules; only --search runs anything.

    circlet place net.tflite --backend cpu,reference --backend-of 'CONV_2D=litert'
    """
    chosen = options_of(options)
    if search:
        settings = EvaluationSettings(options=chosen)
        options["search"] = SearchRequest(options["model"], settings)  # type: ignore[arg-type]
    with working("placing"):
        found = place_network(PlaceRequest(options=chosen, **options))  # type: ignore[arg-type]
    if as_json:
        sums = {"transfer_bytes": found.transfer_bytes, "copied_bytes": found.copied_bytes}
        print_json({**asdict(found), **sums})
        return
    _show(found)


def _show(found: Placement) -> None:
    rows = [
        (
            row.kind,
            row.backend,
            row.source,
            "; ".join(f"{name}: {why}" for name, why in row.refused),
        )
        for row in found.operators
    ]
    show_table(console(), ("kind", "backend", "source", "refused by"), rows)
    parts = ", ".join(
        f"{name} ({counted(ops, 'fused operator')})" for name, ops in found.partitions
    )
    say(f"partitions in order: {parts}")
    for each in found.transfers:
        size = "a size known in a run" if each.bytes is None else f"{each.bytes:,} bytes"
        how = f"copied from {each.source} to {each.target} memory" if each.is_copied else "shared"
        say(f"{each.writer} -> {each.reader}: {each.tensor}, {size}, {how}")
    sums = f"{found.transfer_bytes:,} bytes, {found.copied_bytes:,} of them copied"
    say(f"{counted(len(found.transfers), 'transfer')}, {sums}")
    for moved in found.moved:
        say(f"{moved.source}: {moved.before or 'nowhere'} -> {moved.after or 'nowhere'}")
    if found.chosen is not None:
        say(f"as measured: {found.chosen.us:,.1f} us, {mib_text(found.chosen.mib)} MiB")
    if found.output:
        say(f"written: {found.output}")
        if found.chosen is not None:
            names = f"{quote(found.model)} --placement-file {quote(found.output)}"
            say(f"to run: circlet run {names} {found.chosen.run}")
