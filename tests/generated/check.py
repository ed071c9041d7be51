"""Runs cases by their records, on backends and by the judge, and says what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from circlet.errors import CircletError
from circlet.ir import Graph, Model
from circlet.ops.evaluate import evaluate_graph
from circlet.runtime.session import Session
from tests.generated.case import Case
from tests.generated.compare import differences
from tests.generated.litert import Judge
from tests.generated.outcome import Outcome
from tests.generated.undefined import excused, excused_between_backends

GROUP = 80  # cases of one network: few enough for the limit of kernels
BACKENDS = ("reference", "cpu")


def check(
    cases: Iterable[Case], backends: Sequence[str] = BACKENDS, judge: Judge | None = None
) -> list[Outcome[Case]]:
    """One outcome for each case."""
    outcomes = [_by_record(case) for case in cases]
    runnable = [outcome for outcome in outcomes if outcome.status == "run"]
    for outcome in runnable if judge is not None else ():
        assert judge is not None
        _judge(outcome, judge)
    for backend in backends:
        for start in range(0, len(runnable), GROUP):
            _on_backend(runnable[start : start + GROUP], backend)
    return outcomes


def _by_record(case: Case) -> Outcome[Case]:
    """Run a case by its record; refusals must be the same, with a code, of a session."""
    if case.refusal:
        outcome = Outcome(case, "refused", case.refusal)
        _expect_code(outcome, lambda: Session(case.model(), backends=("reference",), cache=False))
        return outcome
    outcome = Outcome(case)
    try:
        outcome.wanted = evaluate_graph(case.graph, case.inputs)
    except CircletError as error:
        outcome.status, outcome.why = "failed", str(error)
    except Exception as error:  # what is looked for here
        outcome.status, outcome.why = "failed", repr(error)
        outcome.findings.append(("record", f"no code: {error!r}"))
    return outcome


def _expect_code(outcome: Outcome[Case], attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except CircletError:
        return
    except Exception as error:  # what is looked for here
        outcome.findings.append(("session", f"no code: {error!r}"))
        return
    outcome.findings.append(("session", f"it is opened, though {outcome.why}"))


def _judge(outcome: Outcome[Case], judge: Judge) -> None:
    case = outcome.case
    if excused(case, outcome.wanted):
        outcome.judged = "excused"
        return
    answer = judge.answer(case)
    if isinstance(answer, str):
        outcome.judged, outcome.why = answer.partition(":")[0], answer
        return
    fault = _fault(outcome, answer)
    outcome.judged = "differs" if fault else "agreed"
    if fault:
        outcome.findings.append(("LiteRT", fault))


def _fault(outcome: Outcome[Case], other: Sequence[np.ndarray]) -> str:
    """How results differ from the record's."""
    by_element = outcome.case.record.scalar is not None
    return differences(other, outcome.wanted, by_element=by_element)


def joined(cases: Sequence[Case]) -> Model:
    """One network of several cases side by side."""
    whole = Graph("side by side")
    for case in cases:
        for part in ("inputs", "outputs", "ops", "tensors"):
            getattr(whole, part).extend(getattr(case.graph, part))
    return Model([whole])


def _on_backend(group: Sequence[Outcome[Case]], backend: str) -> None:
    """Compare a group on a backend; where it fails as a whole, its halves."""
    backends = (backend, "reference") if backend != "reference" else (backend,)
    given = [array for outcome in group for array in outcome.case.inputs]
    try:
        network = joined([outcome.case for outcome in group])
        session = Session(network, backends=backends, cache=False)
        results = list(session.run(given).values())
    except Exception as error:
        if len(group) > 1:
            half = len(group) // 2
            _on_backend(group[:half], backend)
            _on_backend(group[half:], backend)
            return
        coded = "" if isinstance(error, CircletError) else "no code: "
        group[0].findings.append((backend, f"{coded}{' '.join(str(error).split())[:300]}"))
        return
    _compare(group, results, backend)
    if backend != "reference":
        others = {str(row["source"]) for row in session.placement if row["backend"] != backend}
        for outcome in group:
            outcome.native = outcome.case.name not in others


def _compare(group: Sequence[Outcome[Case]], results: list[np.ndarray], backend: str) -> None:
    start = 0
    for outcome in group:
        count = len(outcome.wanted)
        fault = _fault(outcome, results[start : start + count])
        start += count
        if fault and not excused_between_backends(outcome.case, outcome.wanted):
            outcome.findings.append((backend, fault))
