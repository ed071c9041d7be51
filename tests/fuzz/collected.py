"""Fuzzing that is collected over several runs: reports as JSON, added up in a tally."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz.engine import CASES_PER_WORKER, Report, Request, fuzz
from tests.tally import Tally, go_on


def collect(request: Request, jobs: int, path: Path) -> Report:
    """Go on with the cases of a request that a tally has not counted yet; the sum of all runs.

    Raises:
        TallyError: The tally is damaged, or of other cases.
    """
    assert request.count is not None
    names = ("seed", "start", "native", "only")
    about = {"proof": "fuzz", **{name: getattr(request, name) for name in names}}
    tally = Tally.opened(path, about)
    whole = from_json(tally.found)

    def attempt(first: int, count: int) -> Report:
        start = request.start + first
        folder = request.folder / str(start)
        return fuzz(replace(request, folder=folder, start=start, count=count, seconds=None))

    def add(part: Report) -> None:
        whole.add(part)
        tally.found = as_json(whole)

    size, seconds = CASES_PER_WORKER, request.seconds
    go_on(tally, request.count, size, attempt, add=add, seconds=seconds, jobs=jobs)
    whole.seconds = tally.seconds
    return whole


def as_json(report: Report) -> dict[str, Any]:
    """A report as JSON holds it."""
    return {
        "executions": report.executions,
        "outcomes": [[*pair, count] for pair, count in sorted(report.outcomes.items())],
        "makers": [[*pair, count] for pair, count in sorted(report.makers.items())],
        "times": dict(report.times),
        "findings": {signature: str(path) for signature, path in report.findings.items()},
    }


def from_json(known: dict[str, Any]) -> Report:
    """The report that `as_json` was given; an empty one for an empty dict."""
    return Report(
        known.get("executions", 0),
        Counter({(first, second): count for first, second, count in known.get("outcomes", ())}),
        Counter({(first, second): count for first, second, count in known.get("makers", ())}),
        {signature: Path(path) for signature, path in known.get("findings", {}).items()},
        Counter(known.get("times", {})),
    )
