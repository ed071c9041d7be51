"""Files of ONE's pareto_profiler: operators, symbols and solutions, read and written.

Two shapes of solutions are known: that of its brute force (`time`, `memory`) and that of its
samplers (`exec_time`, `max_rss`, with `mode` and `configs`). An id is a number in base of how many
backends there are, whose lowest digit is the backend of the first symbol. A symbol is a kind of
operator (`oplist`), or each pair of kind and size of data (`opmap`, by the sizes of the tensors'
own types).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from circlet.apart import Apart
from circlet.errors import InputError
from circlet.json_files import read_json
from circlet.pareto.find import SearchRequest, space_of
from circlet.pareto.front import FrontPoint, ParetoFront, front_of, volume
from circlet.placement.problem import Measurement, Problem
from circlet.placement.search.front import reference_point
from circlet.regular_files import write_file

MODES = ("index", "name")


def symbols_of(problem: Problem, mode: str = "index") -> tuple[list[int], list[str]]:
    """The symbol of each group, and the name of each symbol, in the order of the network."""
    names: dict[tuple[object, ...], int] = {}
    found = []
    for group in problem.groups:
        key = (group.kind,) if mode == "name" else (group.kind, group.size_bytes)
        found.append(names.setdefault(key, len(names)))
    return found, [str(key[0]) for key in names]


def vector_of(number: int, backends: int, length: int) -> list[int]:
    """The digits of an id, the first symbol's first.

    Raises:
        InputError: The number has more digits.
    """
    digits = []
    for _ in range(length):
        number, digit = divmod(number, backends)
        digits.append(digit)
    if number:
        why = f"{length} symbols of {backends} backends have smaller ids"
        raise InputError("an id is too large", where=str(number), why=why)
    return digits


def number_of(vector: Sequence[int], backends: int) -> int:
    """The id of a backend for each symbol."""
    return sum(digit * backends**place for place, digit in enumerate(vector))


def one_dump(front: ParetoFront, *, sampled: bool = False) -> dict[str, object]:
    """A front as ONE's files have it: each group is a symbol of its own.

    Args:
        sampled: Whether in the shape of its samplers, rather than in that of its brute force.
    """
    keys = ("exec_time", "max_rss", "id") if sampled else ("time", "memory", "id")
    solutions, configs = [], {}
    for point in front.points:
        placement = point.configuration.placement
        vector = [front.backends.index(placement[group[0]]) for group in front.groups]
        number = number_of(vector, len(front.backends))
        values = point.point[0] / 1e6, point.point[1] / 1024, number
        solutions.append(dict(zip(keys, values, strict=True)))
        configs[str(number)] = _environment(front.backends, vector)
    opmap = list(range(len(front.groups)))
    names = [";".join(group) for group in front.groups]
    dump: dict[str, object] = {"solutions": solutions, "oplist": names}
    if sampled:
        return {**dump, "mode": "index", "configs": configs, "oplist": opmap}
    return {**dump, "opmap": opmap, "opname_by_indx": names}


def _environment(backends: Sequence[str], vector: Sequence[int]) -> str:
    """The variables that ONE's runtime reads."""
    placed = ";".join(f"{i}={backends[digit]}" for i, digit in enumerate(vector))
    return f'BACKENDS="{";".join(backends)}" OP_BACKEND_MAP="{placed}"'


def write_one(path: Path, dump: Mapping[str, object]) -> None:
    """Write one of these files, whole or not at all; raises FileError."""
    write_file(path, (json.dumps(dump, indent=1) + "\n").encode(), 0o644, "solutions")


def read_one(path: Path, request: SearchRequest) -> ParetoFront:
    """The front of a file of solutions for a network.

    The backends of the request are those of the digits, in order.

    Raises:
        FileError: It cannot be read.
        InputError: It holds no solutions, or those of another network.
    """
    fix = "give a file that ONE's pareto_profiler or circlet pareto --one wrote"
    keys, rows = read_json(path, "solutions", _keys_and_rows, fix)
    with Apart() as apart:
        problem = space_of(request, apart).problems[0]
    symbols = _symbols(keys, problem, path)
    points = []
    for time, memory, number in rows:
        vector = vector_of(number, len(problem.backends), max(symbols) + 1)
        choice = np.array([vector[symbol] for symbol in symbols], np.int64)
        measured = Measurement(time * 1e6, memory * 1024)
        points.append(FrontPoint(problem.configuration(choice), measured))
    front, others = front_of(points)
    reference = reference_point(np.array([p.point for p in points], float).reshape(-1, 2))
    return ParetoFront(
        path.name,
        problem.backends,
        tuple(group.sources for group in problem.groups),
        tuple(front),
        tuple(others),
        strategy="read",
        evaluations=len(points),
        reference=reference,
        hypervolume=volume(front, reference),
    )


def _keys_and_rows(
    found: Mapping[str, object],
) -> tuple[Mapping[str, object], list[tuple[float, float, int]]]:
    return found, [_solution(row) for row in found["solutions"]]  # type: ignore[attr-defined]


def _solution(row: Mapping[str, float]) -> tuple[float, float, int]:
    """Milliseconds, KiB and id of a solution in either shape."""
    names = ("exec_time", "max_rss") if "exec_time" in row else ("time", "memory")
    return float(row[names[0]]), float(row[names[1]]), int(row["id"])


def _symbols(found: Mapping[str, object], problem: Problem, path: Path) -> list[int]:
    """The symbol of each group, by the map of the file, or by kinds where it has none."""
    listed = found.get("opmap")
    if listed is None and found.get("mode") == "index":
        listed = found.get("oplist")
    if isinstance(listed, list) and listed and all(isinstance(n, int) for n in listed):
        symbols = [int(number) for number in listed]
    else:
        symbols, _ = symbols_of(problem, "name")
    if len(symbols) != len(problem.groups) or min(symbols) < 0:
        raise InputError(
            "solutions are of another network",
            where=str(path),
            why=f"{len(symbols)} operators instead of {len(problem.groups)}",
            fix="give the network and the level that they were found for",
        )
    return symbols
