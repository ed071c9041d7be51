"""USE_SCHEDULER and PROFILING_MODE of ONE's settings: operators go where costs say.

As ONE's scheduler does, times are read from exec_time.json in the working folder and, while
profiling, written there; what this machine measured itself counts more, and is kept besides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from circlet.apart import Apart
from circlet.costs.exchange import exported, import_times
from circlet.costs.exec_time import ExecTime
from circlet.costs.model import Costs, open_costs
from circlet.costs.steps import Steps, carried_out
from circlet.costs.study import DEFAULT_EFFORT, Effort, measure
from circlet.costs.whole import Network
from circlet.errors import InputError
from circlet.options import DEFAULT_EXECUTOR, DEFAULT_LEVEL, Options
from circlet.pareto.build import Level, problems_of
from circlet.placement.file import rules_of
from circlet.placement.problem import Setting
from circlet.placement.search.schedule import list_schedule

TIMES = "exec_time.json"
LOGGER = logging.getLogger(__name__)


def scheduled(
    model: bytes | Path,
    options: Options,
    threads: int,
    *,
    measures: bool = False,
    folder: Path | None = None,
    effort: Effort = DEFAULT_EFFORT,
) -> Options:
    """Options that place the operators of a network by list scheduling on what they cost.

    Rules of `backend_of` go before the schedule, those of `backend_of_source` behind it.

    Args:
        threads: Of a run.
        measures: Whether what is not known is measured first.
        folder: Where the file of times lies; by default the working folder.

    Raises:
        InputError: Nothing is known of any of the backends, or the file holds no times.
        CircletError: The network cannot be read, or no backend takes some of it.
    """
    path = (folder or Path()) / TIMES
    given = options._replace(backend_of=(), backend_of_source=(), strict=False)
    with Apart() as apart:
        placement: dict[str, str] = carried_out(
            apart, _scheduled, model, given, threads, measures, path, effort, limit_s=effort.limit_s
        )
    rules = (*options.backend_of, *rules_of(placement))
    return options._replace(backend_of=rules)


def _scheduled(
    steps: Steps,
    model: bytes | Path,
    options: Options,
    threads: int,
    measures: bool,
    path: Path,
    effort: Effort,
) -> dict[str, str]:
    """A backend for each source operator; in a process of its own, as backends are asked."""
    with open_costs(options, steps=steps) as costs:
        if path.exists():
            import_times(costs, ExecTime.read(path), threads)
        network = Network.read(model, costs, options.backends)
        if measures:
            measure(costs, network, options.backends, (threads,), effort)
            exported(costs, options.backends, threads).write(path)
        return _placement(costs, network, options, threads)


def _placement(costs: Costs, network: Network, options: Options, threads: int) -> dict[str, str]:
    level = options.level or DEFAULT_LEVEL
    setting = Setting(threads, level, executor=options.executor or DEFAULT_EXECUTOR)
    backends = _known(costs, network, options.backends, threads)
    levels = [Level(level, network.ops, costs)]
    (problem,) = problems_of(levels, backends, [setting])
    return problem.placement(list_schedule(problem))


def _known(
    costs: Costs, network: Network, backends: Sequence[str], threads: int
) -> tuple[str, ...]:
    """The backends that costs are known of; ONE leaves the others out, too."""
    found = []
    for name in backends:
        takes = [op for op in network.ops if not costs.refusal(op, name)]
        try:
            for op in takes:
                costs.operator_ns(op, name, threads)
            found.append(name)
        except InputError as error:
            LOGGER.warning("nothing is placed on %s: %s", name, error.why or error.what)
    if not found:
        raise InputError(
            "nothing is known of what operators cost",
            where="USE_SCHEDULER",
            fix="run once with PROFILING_MODE=1, or circlet costs MODEL",
        )
    return tuple(found)
