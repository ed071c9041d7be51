"""What `circlet report` does, as functions: a model, or two, in and a page out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from circlet.artifact.values import unique_names
from circlet.commands.inputs import InputOptions, check_used, inputs_of, read_inputs, wanted_of
from circlet.commands.inspect import planned_copy, settled
from circlet.compiler.planning import PlannedModel
from circlet.errors import InputError
from circlet.formats import load
from circlet.formats.arrays import random_array
from circlet.formats.paths import check_apart
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.pareto.front import read_front
from circlet.regular_files import check_replaceable, write_file
from circlet.report.collect import Subject, report_of_file, with_plan, with_refusals
from circlet.report.compare import Comparison, compare
from circlet.report.data import Report
from circlet.report.front import with_front
from circlet.report.page import page
from circlet.report.read import is_page, reports_in
from circlet.report.timing import measure
from circlet.runtime.session import Session
from circlet.stored import stored
from circlet.target.host import host_model

_HEAD_BYTES = 64


@dataclass(frozen=True)
class ReportRequest:
    """What `circlet report` is asked for.

    Attributes:
        sources: A model or a page, or two of them to be compared.
        inputs: Files for the inputs; random data where there are none.
        runs: How often the network is run to be timed: for about a second where it is None, and
            not at all where it is 0.
        front: A file of a front of the first network.
    """

    sources: tuple[Path, ...]
    output: Path
    inputs: tuple[Path, ...] = ()
    runs: int | None = None
    threads: int | None = None
    options: Options = DEFAULT_OPTIONS
    front: Path | None = None


@dataclass(frozen=True)
class Made:
    """What was made: the reports, what differs between two, and the size of the page."""

    reports: tuple[Report, ...]
    comparison: Comparison | None
    output: str
    size_bytes: int


def make_report(request: ReportRequest) -> Made:
    """Write the page of a network, or of two.

    Raises:
        InputError: There are more than two sources, or inputs for pages.
        CircletError: As reading, compiling and running a model; operators that nothing runs are no
            error: the page shows them.
    """
    _check(request)
    reports = tuple(report for path in request.sources for report in _reports(path, request))
    if request.front is not None:
        reports = (with_front(reports[0], read_front(request.front)), *reports[1:])
    if len(reports) > 2:
        raise InputError(
            "two reports can be compared",
            where=", ".join(map(str, request.sources)),
            why=f"there are {len(reports)}",
            fix="give pages of one report each",
        )
    comparison = compare(*reports) if len(reports) == 2 else None
    data = page(reports, comparison).encode()
    write_file(request.output, data, 0o644)
    return Made(reports, comparison, str(request.output), len(data))


def _check(request: ReportRequest) -> None:
    if not 1 <= len(request.sources) <= 2:
        fix = "give one model, or two models or reports to compare"
        raise InputError("a report is of one network or of two", fix=fix)
    check_replaceable(request.output, "the report")
    check_apart(request.output, [*request.sources, *request.inputs])


def _reports(path: Path, request: ReportRequest) -> Sequence[Report]:
    """The report of a model, or those in a page that was made before."""
    file = stored(path)
    if is_page(bytes(file.read(0, _HEAD_BYTES))):
        return reports_in(bytes(file.data()).decode("utf-8", "replace"), str(path))
    return [_report(path, request)]


def _report(path: Path, request: ReportRequest) -> Report:
    options = request.options
    model = load(path, options.limits)
    planned = planned_copy(model, options)
    shown = settled(model, planned, options)
    report = report_of_file(Subject(path.name, shown, options, host_model()))
    if not isinstance(planned, PlannedModel):
        return with_refusals(report, planned)
    if request.runs == 0:
        return with_plan(report, planned)
    session = Session.of(path, options, threads=request.threads)
    arrays, origin = _arrays(session, request)
    shapes = tuple(zip(unique_names(session.inputs), (a.shape for a in arrays), strict=True))
    if any(value.shape != a.shape for value, a in zip(session.inputs, arrays, strict=True)):
        return _report(path, replace(request, options=options._replace(shapes=shapes)))
    return with_plan(report, planned, measure(session, planned, arrays, request.runs, origin))


def _arrays(session: Session, request: ReportRequest) -> tuple[list[np.ndarray], str]:
    """What the network is run on, and where that is from."""
    if not request.inputs:
        return [random_array(wanted_of(value)) for value in session.inputs], "random data"
    options = InputOptions(memory_bytes=request.options.limits.memory_bytes)
    check_used(request.inputs, options)
    about = session.opened.metadata.get("about")
    known = about if isinstance(about, dict) else {}
    classes = max((value.shape[-1] for value in session.outputs if value.shape), default=0)
    given = read_inputs(request.inputs, inputs_of(session), options, known, classes)
    return list(given.arrays), ", ".join(given.origins)
