"""`circlet bench`: a network's time, by Circlet and by other engines in turn."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.progress import working
from circlet.cli.shapes import shapes_option
from circlet.cli.standard_input import InputFile
from circlet.commands.bench import PEERS, BenchRequest, bench_network


@click.command(cls=CircletCommand, name="bench")
@click.argument("model", required=False, type=InputFile())
@click.option("--graph", type=InputFile(), help="The same as MODEL.")
@click.option(
    "--against",
    default="",
    metavar="ENGINES",
    callback=lambda ctx, param, text: tuple(filter(None, map(str.strip, text.split(",")))),
    help=f"Engines to compare with, separated by commas: {', '.join(PEERS)}.",
)
@click.option(
    "--threads",
    "--num_threads",
    type=click.IntRange(1),
    help="Default: the cores that may be used.",
)
@click.option(
    "--rounds",
    default=11,
    show_default=True,
    type=click.IntRange(2),
    help="In each of them every engine has its turn.",
)
@click.option(
    "--runs",
    "--num_runs",
    type=click.IntRange(1),
    help="Runs of each engine in all. Default: as many as take 25 ms in each round.",
)
@click.option(
    "--warmup",
    "--warmup_runs",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Runs that do not count.",
)
@shapes_option()
@json_option
def command(as_json: bool, model: Path | None, graph: Path | None, **options: object) -> None:
    """Time MODEL by Circlet and by other engines, interleaved round by round.

    Every engine runs in a process of its own, on the same random inputs, at its best documented
    settings. Ratios are the peer's time over Circlet's with the interval in which 95 % of repeated
    measurements fall; a verdict says where other processes, or the spread, spoil them.
    --graph, --num_threads, --num_runs and --warmup_runs are those of LiteRT's benchmark_model.
    """
    if (model is None) == (graph is None):
        raise click.UsageError("Give one network, as MODEL or as --graph.")
    request = BenchRequest(model or graph, **options)  # type: ignore[arg-type]
    with working("timing engines"):
        report = bench_network(request)
    if as_json:
        print_json({**asdict(report), "is_noisy": report.is_noisy})
        return
    from circlet.cli.render_bench import show_bench

    show_bench(report)
