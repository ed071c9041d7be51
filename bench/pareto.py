"""How many measurements strategies of `circlet pareto` need, over tables of all placements.

`record` measures every placement of networks once and keeps each at once, so that it can be ended
and goes on; kinds of operators are placed as a whole, which keeps the number of placements small
enough. `replay` runs every strategy over these tables with many seeds, measures nothing, and prints
the share of the best hypervolume that a tenth of all evaluations reaches. `offline` finds the front
on the model of costs, as `circlet pareto --mode offline` does, and looks up what it measures: the
share of the best hypervolume, and the hypervolume that the model says of the same placements.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from bench import load, machine
from bench.arguments import add_loaded, add_rounds, parser
from bench.pareto_table import Table, names_in, read, record
from circlet.options import Options
from circlet.pareto.calibrate import calibrated
from circlet.pareto.find import BY, SearchRequest, offline_front
from circlet.pareto.settings import MEMORY, EvaluationSettings
from circlet.placement.search.drive import search
from circlet.placement.search.front import as_array, hypervolume, reference_point
from circlet.placement.search.strategies import STRATEGIES, strategy

FOLDER = Path(__file__).parent / "results" / "pareto"
ENOUGH = 0.99
BUDGET = 0.1


@dataclass(frozen=True)
class Replayed:
    """One strategy on one network, over all seeds.

    Attributes:
        size, budget: Placements in all, and how many a strategy may measure.
        shares: The part of the best hypervolume that each seed reaches with the budget.
        needed: How many measurements each seed needs for 99 % of it; None where the budget is too
            small.
    """

    network: str
    strategy: str
    size: int
    budget: int
    shares: tuple[float, ...]
    needed: tuple[int | None, ...]


@dataclass(frozen=True)
class Offline:
    """The front of the model on one network.

    Attributes:
        size, measured: Placements in all, and how many are measured: single backends, the front.
        share: Of the best hypervolume that there is, by the times that were measured.
        predicted, uncorrected: The hypervolume that the model says of the placements of its front
            over the measured one, with and without what single backends taught it.
    """

    network: str
    size: int
    measured: int
    share: float
    predicted: float
    uncorrected: float


def main(arguments: Sequence[str]) -> None:
    """Record tables, or replay strategies over them."""
    known = parser("pareto", __doc__)
    known.add_argument("what", choices=("record", "replay", "offline"))
    known.add_argument("models", nargs="*", type=Path, help="networks to record")
    known.add_argument("--folder", type=Path, default=FOLDER, help="where tables are")
    known.add_argument("--backend", default="cpu,litert,openvino", help="separated by commas")
    known.add_argument("--threads", default="1", help="numbers, separated by commas")
    known.add_argument("--levels", default="O2", help="separated by commas")
    known.add_argument("--by", choices=BY, default="kind", help="what is placed as a whole")
    known.add_argument("--memory", choices=MEMORY, default="planned", help="what counts as memory")
    known.add_argument("--search", default="auto,random,nsga2", help="strategies to replay")
    known.add_argument("--seeds", type=int, default=20, help="of each strategy")
    add_rounds(known, 5)
    add_loaded(known)
    options = known.parse_args(arguments)
    if options.what == "replay":
        _replay_all(options.folder, options.search.split(","), options.seeds)
        return
    if options.what == "offline":
        _offline_all(options.folder)
        return
    watch = load.watch(options.loaded)
    for model in options.models:
        common = Options(backends=tuple(options.backend.split(",")))
        settings = EvaluationSettings(common, rounds=options.rounds, memory=options.memory)
        threads = tuple(map(int, options.threads.split(",")))
        levels = tuple(options.levels.split(","))
        request = SearchRequest(model, settings, threads, levels, by=options.by)
        record(request, model.stem, options.folder)
    facts = machine.facts() | watch.facts()
    (options.folder / "machine.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")


def _replay_all(folder: Path, strategies: Sequence[str], seeds: int) -> None:
    rows = []
    for name in names_in(folder):
        table = read(folder, name)
        for each in strategies:
            rows.append(replay(table, each, seeds))
            print(_line(rows[-1]), flush=True)
    text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    (folder / "replayed.json").write_text(text, encoding="utf-8")


def _offline_all(folder: Path) -> None:
    rows = [offline(read(folder, name)) for name in names_in(folder)]
    for row in rows:
        print(
            f"{row.network:32} {row.size:6} placements, {row.measured:3} measured: "
            f"{100 * row.share:6.2f} % of the best, predicted {100 * row.predicted:6.2f} % of "
            f"measured, {100 * row.uncorrected:6.2f} % without single backends"
        )
    text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    (folder / "offline.json").write_text(text, encoding="utf-8")


def offline(table: Table) -> Offline:
    """What the front of the model comes to by what was measured."""
    corner = reference_point(as_array(list(table.points.values())))
    best = hypervolume(as_array(list(table.points.values())), corner)
    singles = table.space.single_backends()
    space = calibrated(table.space, {genome: table.points[genome] for genome in singles})
    front = [
        genome for genome in offline_front(space)[0] if np.isfinite(table.points[genome]).all()
    ]
    chosen = list(dict.fromkeys([*singles, *front]))
    measured = hypervolume(as_array(table.measure(front)), corner)
    return Offline(
        table.name,
        table.space.size,
        len(chosen),
        hypervolume(as_array(table.measure(chosen)), corner) / best,
        hypervolume(space.predicted(front), corner) / measured,
        hypervolume(table.space.predicted(front), corner) / measured,
    )


def replay(table: Table, name: str, seeds: int) -> Replayed:
    """A strategy over a table."""
    assert name in STRATEGIES, name
    every = as_array(list(table.points.values()))
    corner = reference_point(every)
    best = hypervolume(every, corner)
    budget = max(1, int(BUDGET * table.space.size))
    shares, needed = [], []
    for seed in range(seeds):
        steps = strategy(name, table.space, seed)
        found = search(table.space, steps, table.measure, budget)
        points = as_array(list(found.points.values()))
        shares.append(hypervolume(points, corner) / best)
        counts = range(1, len(points) + 1)
        volumes = (hypervolume(points[:count], corner) / best for count in counts)
        needed.append(next((n for n, v in zip(counts, volumes, strict=True) if v >= ENOUGH), None))
    return Replayed(table.name, name, table.space.size, budget, tuple(shares), tuple(needed))


def _line(row: Replayed) -> str:
    reached = [count for count in row.needed if count is not None]
    needs = f"{median(reached):.0f}" if reached else "-"
    return (
        f"{row.network:32} {row.strategy:8} {row.size:6} placements, {row.budget:4} measured: "
        f"{100 * mean(row.shares):6.2f} % (least {100 * min(row.shares):6.2f} %), 99 % after "
        f"{needs} in {len(reached)} of {len(row.needed)} seeds"
    )
