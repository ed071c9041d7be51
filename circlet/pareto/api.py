"""`circlet.pareto`: the front of a network's placements, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from circlet.options import DEFAULT_BACKENDS, Options
from circlet.pareto.find import SearchRequest, find_front
from circlet.pareto.front import ParetoFront
from circlet.pareto.settings import EvaluationSettings
from circlet.regular_files import StrPath


def pareto(
    model: StrPath | bytes,
    *,
    backends: Sequence[str] = DEFAULT_BACKENDS,
    threads: Sequence[int] = (1,),
    levels: Sequence[str] = ("O2", "Os"),
    search: str = "auto",
    evaluations: int = 60,
    mode: str = "online",
    memory: str = "process",
    seed: int = 0,
    journal: StrPath | None = None,
) -> ParetoFront:
    """The placements of a network that no other found beats in both time and memory.

    The fastest of them is never slower than the best single backend: those are measured side by
    side with the others.

    Args:
        model: A model file or its bytes.
        backends: Where operators may go.
        threads, levels: Settings of sessions that are tried.
        search: "auto", "brute-force", "random", "hlps", "nsga2", "spea2" or "tpe".
        evaluations: How many placements are measured at most.
        mode: "online", or "offline" to search on the model of costs, and measure what it finds.
        memory: "process" for what a fresh process holds while it runs, or "planned".
        seed: Of everything that is drawn.
        journal: A file of what was measured already, and where it is kept.

    Raises:
        InputError: An argument is not what it may be.
        CircletError: The network cannot be read, or no backend takes some of it.
    """
    return find_front(
        SearchRequest(
            model if isinstance(model, bytes) else Path(model),
            EvaluationSettings(options=Options(backends=tuple(backends)), memory=memory),
            tuple(threads),
            tuple(levels),
            search=search,
            evaluations=evaluations,
            mode=mode,
            seed=seed,
            journal=None if journal is None else Path(journal),
        )
    )
