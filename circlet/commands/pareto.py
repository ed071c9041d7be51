"""The best placements of a network for time and memory: `circlet pareto`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from circlet.commands.pareto_plot import front_svg
from circlet.errors import InputError
from circlet.formats.paths import check_apart
from circlet.pareto.find import SearchRequest, find_front
from circlet.pareto.front import FrontPoint, ParetoFront, read_front, write_front
from circlet.pareto.one_files import one_dump, read_one, write_one
from circlet.regular_files import check_replaceable, write_file


@dataclass(frozen=True)
class ParetoRequest:
    """What is searched, and where the answer goes.

    Attributes:
        search: The search.
        output: Where to write the front as JSON; None for nowhere.
        plot: Where to draw it as SVG.
        one: Where to write it as ONE's pareto_profiler writes its results.
        front: A front to show instead of searching.
        one_solutions: A file of ONE's pareto_profiler to show instead of searching.
    """

    search: SearchRequest
    output: Path | None = None
    plot: Path | None = None
    one: Path | None = None
    front: Path | None = None
    one_solutions: Path | None = None


@dataclass(frozen=True)
class ParetoReport:
    """A front, and the files that were written."""

    front: ParetoFront
    written: tuple[str, ...]


def pareto(request: ParetoRequest) -> ParetoReport:
    """Search, or read what was found before; write what is asked for.

    Raises:
        InputError: Files or choices do not fit.
        CircletError: As `circlet.pareto.find.find_front`.
    """
    model = request.search.model
    targets = [path for path in (request.output, request.plot, request.one) if path is not None]
    for number, path in enumerate(targets):
        check_replaceable(path, "a front")
        check_apart(path, [model] if isinstance(model, Path) else [])
        if path in targets[:number]:
            fix = "name another file for one of them"
            raise InputError("two files have the same name", where=str(path), fix=fix)
    front = _front(request)
    if request.output is not None:
        write_front(request.output, front)
    if request.plot is not None:
        write_file(request.plot, front_svg(front).encode(), 0o644, "a plot")
    if request.one is not None:
        write_one(request.one, one_dump(front))
    return ParetoReport(front, tuple(map(str, targets)))


def _front(request: ParetoRequest) -> ParetoFront:
    if request.front is not None and request.one_solutions is not None:
        fix = "give one of them"
        raise InputError("a front is read from one file", where="--front, --one-solutions", fix=fix)
    if request.front is not None:
        return read_front(request.front)
    if request.one_solutions is not None:
        return read_one(request.one_solutions, request.search)
    return find_front(request.search)


def point_row(front: ParetoFront, point: FrontPoint) -> tuple[str, ...]:
    """A point in words: microseconds with their interval, MiB, setting, backends, gain."""
    measured, setting = point.measurement, point.configuration.setting
    time, memory = point.point
    interval = ""
    if measured is not None and measured.runs:
        interval = f"{measured.low_ns / 1e3:,.1f} .. {measured.high_ns / 1e3:,.1f}"
    best = front.best_single
    gain = f"{best.point[0] / time:.2f}x" if best is not None and time else ""
    predicted = f"{point.predicted[0] / 1e3:,.1f}" if point.predicted else ""
    return (
        f"{time / 1e3:,.1f}",
        interval,
        predicted,
        mib_text(memory / 2**20),
        str(setting.threads),
        setting.level,
        setting.executor,
        shares(point),
        gain,
    )


def mib_text(mib: float) -> str:
    """MiB with two decimals, small amounts with three digits."""
    return f"{mib:,.2f}" if mib >= 0.1 or not mib else f"{mib:.3g}"


def shares(point: FrontPoint) -> str:
    """How many operators of the file each backend has."""
    names = list(point.configuration.placement.values())
    counts = sorted(((names.count(name), name) for name in set(names)), reverse=True)
    return ", ".join(f"{name} {count}" for count, name in counts)
