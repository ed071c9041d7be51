"""`circlet pareto`: the placements that no other beats in both time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from circlet.cli.common import (
    CircletCommand,
    backend_option,
    json_option,
    max_memory_option,
    options_of,
    precision_option,
    print_json,
)
from circlet.cli.console import console, say, show_table
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.pareto import ParetoReport, ParetoRequest, mib_text, pareto, point_row
from circlet.pareto.find import BY, MODES, SearchRequest
from circlet.pareto.front import as_dict
from circlet.pareto.settings import MEMORY, EvaluationSettings
from circlet.placement.search.strategies import STRATEGIES
from circlet.words import counted


def _words(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    words = _words(ctx, param, text)
    if not words or not all(word.isdigit() and 0 < int(word) <= 64 for word in words):
        raise click.BadParameter("give numbers from 1 to 64, separated by commas")
    return tuple(map(int, words))


@click.command(cls=CircletCommand, name="pareto")
@click.argument("model", type=InputFile())
@backend_option
@click.option(
    "--search", type=click.Choice(STRATEGIES), default="auto", show_default=True, help="How."
)
@click.option(
    "--evaluations",
    default=60,
    show_default=True,
    type=click.IntRange(1),
    help="How many placements are measured at most.",
)
@click.option("--threads", default="1", show_default=True, callback=_numbers, help="Such as 1,2.")
@click.option(
    "--levels",
    default="O2,Os",
    show_default=True,
    callback=_words,
    help="Os takes less memory, and some time for it.",
)
@click.option(
    "--executors",
    default="linear",
    show_default=True,
    callback=_words,
    help="Of linear, dataflow and parallel.",
)
@click.option(
    "--by", type=click.Choice(BY), default=BY[0], show_default=True, help="What is placed."
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default=MODES[0],
    show_default=True,
    help="Measure what the search asks for, or search on the model of costs and then measure.",
)
@click.option(
    "--memory",
    type=click.Choice(MEMORY),
    default=MEMORY[0],
    show_default=True,
    help="What a fresh process holds while it runs, or what is planned.",
)
@precision_option(default="f32", show_default=True)
@click.option("--rounds", default=11, show_default=True, type=click.IntRange(1), help="Of timing.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the search.")
@click.option("--journal", type=click.Path(path_type=Path), help="Keep what is measured; go on.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the front as JSON.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the front as SVG.")
@click.option("--one", type=click.Path(path_type=Path), help="Write it as ONE's solutions.")
@click.option("--front", type=click.Path(path_type=Path), help="Show this front; search nothing.")
@click.option(
    "--one-solutions", type=click.Path(path_type=Path), help="Show ONE's solutions of MODEL."
)
@shapes_option()
@max_memory_option
@json_option
def command(as_json: bool, **options: Any) -> None:
    """Find the placements of MODEL that no other beats in both time and memory.

    circlet pareto net.tflite --backend cpu,litert,openvino --threads 1,2 -o front.json
    """
    request = _request(options)
    with working("searching"):
        found = pareto(request)
    if as_json:
        print_json(as_dict(found.front))
        return
    _show(found)


def _request(options: dict[str, Any]) -> ParetoRequest:
    names = ("output", "plot", "one", "front", "one_solutions")
    files = {name: options.pop(name) for name in names}
    settings = EvaluationSettings(
        memory=options.pop("memory"), rounds=options.pop("rounds"), options=options_of(options)
    )
    return ParetoRequest(SearchRequest(settings=settings, **options), **files)


def _show(found: ParetoReport) -> None:
    front = found.front
    head = ("us", "95 % interval", "predicted us", "MiB", "threads", "level", "executor")
    rows = [point_row(front, point) for point in front.points]
    title = ("placed on", "vs best single")
    show_table(console(), (*head, *title), rows)
    failed = [p.measurement for p in front.others if p.measurement and p.measurement.error]
    say(
        f"{counted(len(front.points), 'point')} of {counted(front.evaluations, 'evaluation')} "
        f"among {counted(front.space, 'placement')}, by {front.strategy}"
    )
    if front.model_front_is_exact is False:
        say("the front of the model of costs is not exact: too many placements to try all")
    best = front.best_single
    if best is not None:
        say(f"best single backend: {best.single}, {best.point[0] / 1e3:,.1f} us")
    time, memory = front.reference
    say(
        f"hypervolume: {front.hypervolume:.4g} ns x bytes, from "
        f"{time / 1e3:,.1f} us and {mib_text(memory / 2**20)} MiB"
    )
    for why in dict.fromkeys(each.error for each in failed):
        say(f"failed: {why}")
    for path in found.written:
        say(f"written: {path}")
