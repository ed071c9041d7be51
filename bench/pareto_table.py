"""Every placement of a network, measured once: the table that searches are replayed over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from circlet.apart import Apart
from circlet.errors import InputError
from circlet.pareto.apart import Measuring
from circlet.pareto.find import Evaluate, SearchRequest, identity, space_of
from circlet.pareto.journal import Journal
from circlet.placement.problem import Crossing, Group, Problem, Setting, Step
from circlet.placement.search.front import Point
from circlet.placement.search.space import Genome, Space
from circlet.regular_files import write_file

_ARRAYS = ("time_ns", "held_bytes", "transfer_ns", "partition_ns", "fixed_bytes")
SPACE, JOURNAL = ".space.json", ".jsonl"


@dataclass(frozen=True)
class Table:
    """A space, and the points of all its genomes; infinite where one failed."""

    name: str
    space: Space
    points: dict[Genome, Point]

    def measure(self, genomes: Sequence[Genome]) -> list[Point]:
        """What was measured of genomes."""
        return [self.points[genome] for genome in genomes]


def record(
    request: SearchRequest, name: str, folder: Path, evaluator: Evaluate | None = None
) -> Table:
    """Measure every placement that was not measured yet, and keep each at once.

    The space is kept with its predictions, so that replays do not depend on what is measured later.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Apart() as apart:
        return _recorded(request, name, folder, evaluator or Measuring(apart), apart)


def _recorded(
    request: SearchRequest, name: str, folder: Path, evaluator: Evaluate, apart: Apart
) -> Table:
    kept = folder / f"{name}{SPACE}"
    if not kept.exists():
        text = json.dumps(_space_dict(space_of(request, apart)))
        write_file(kept, text.encode(), 0o644, "a search space")
    space = _space(json.loads(kept.read_text(encoding="utf-8")))
    journal = Journal(folder / f"{name}{JOURNAL}", identity(request))
    for number, genome in enumerate(space.genomes()):
        configuration = space.configuration(genome)
        if configuration not in journal.known:
            found = evaluator(request.model, configuration, request.settings)
            journal.add(configuration, found)
            print(f"{name}: {number + 1} of {space.size}, {found.time_ns / 1e3:.1f} us", flush=True)
    return _table(name, space, journal)


def read(folder: Path, name: str) -> Table:
    """A table that was recorded.

    Raises:
        InputError: Recording was ended before all was measured.
    """
    space = _space(json.loads((folder / f"{name}{SPACE}").read_text(encoding="utf-8")))
    path = folder / f"{name}{JOURNAL}"
    head = json.loads(path.read_text(encoding="utf-8").partition("\n")[0])
    about = {key: head[key] for key in head if key not in ("format", "version")}
    return _table(name, space, Journal(path, about))


def _table(name: str, space: Space, journal: Journal) -> Table:
    known = journal.known
    missing = sum(space.configuration(genome) not in known for genome in space.genomes())
    if missing:
        what, why = "a table is not whole", f"{missing} of {space.size} placements are missing"
        raise InputError(what, where=name, why=why, fix="python -m bench pareto record MODEL")
    points = {genome: known[space.configuration(genome)].point for genome in space.genomes()}
    return Table(name, space, points)


def names_in(folder: Path) -> list[str]:
    """The tables in a folder."""
    return sorted(path.name.removesuffix(SPACE) for path in folder.glob(f"*{SPACE}"))


def _space_dict(space: Space) -> dict[str, object]:
    return {"groups": space.genes, "problems": [_problem_dict(p) for p in space.problems]}


def _problem_dict(problem: Problem) -> dict[str, object]:
    return {
        "units": [group._asdict() for group in problem.groups],
        "backends": problem.backends,
        "setting": problem.setting._asdict(),
        "steps": [{"unit": step.group, "after": step.after} for step in problem.steps],
        "values": [value._asdict() for value in problem.values],
        "base_bytes": problem.base_bytes,
        **{name: getattr(problem, name).tolist() for name in _ARRAYS},
    }


def _space(found: dict[str, Any]) -> Space:
    genes = tuple(tuple(gene) for gene in found["groups"])
    return Space(tuple(map(_problem, found["problems"])), genes)


def _problem(entry: dict[str, Any]) -> Problem:
    arrays: dict[str, Any] = {name: np.array(entry[name], float) for name in _ARRAYS}
    count = len(entry["backends"])
    arrays["transfer_ns"] = arrays["transfer_ns"].reshape(len(entry["values"]), count, count)
    return Problem(
        groups=tuple(Group(**{**u, "sources": tuple(u["sources"])}) for u in entry["units"]),
        backends=tuple(entry["backends"]),
        setting=Setting(**entry["setting"]),
        steps=tuple(Step(s["unit"], tuple(s["after"])) for s in entry["steps"]),
        values=tuple(Crossing(**{**v, "readers": tuple(v["readers"])}) for v in entry["values"]),
        base_bytes=entry["base_bytes"],
        **arrays,
    )
