"""One case on one backend: its answers, and which of its operators are not native."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet import Session
from circlet.artifact.values import unique_names
from circlet.errors import CircletError
from circlet.formats.nnapi.lower import lower
from tests.nnapi.cases import Case, Example, is_ignored
from tests.nnapi.compare import difference, distribution_fault

BACKENDS = {"reference": ("reference",), "cpu": ("cpu", "reference")}


@dataclass
class Result:
    """What became of a case.

    Attributes:
        case: Its name.
        kinds: Its operations.
        reason: Why it failed; "" where it passed.
        refused: What kept steps from the first backend, by operation and record.
        seconds: How long it took.
    """

    case: str
    kinds: tuple[str, ...]
    reason: str = ""
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run_case(case: Case, backend: str) -> Result:
    """A case on a backend; whatever goes wrong is its reason."""
    result = Result(case.name, case.kinds)
    start = time.perf_counter()
    try:
        for number, example in enumerate(case.examples()):
            session = _session(example, backend)
            result.refused += _refused(session, case.kinds, backend)
            fault = _fault(case, example, list(session.run(example.inputs).values()))
            if fault:
                result.reason = f"example {number}: {fault}" if number else fault
                break
    except CircletError as error:
        result.reason = " ".join(str(error).split())
    except Exception as error:
        result.reason = f"UNCODED {type(error).__name__}: {' '.join(str(error).split())}"
    result.seconds = time.perf_counter() - start
    return result


def _session(example: Example, backend: str) -> Session:
    model = lower(example.description)
    names = unique_names(model.main.inputs)
    shapes = {
        name: array.shape
        for name, array, tensor in zip(names, example.inputs, model.main.inputs, strict=True)
        if None in tensor.shape
    }
    return Session(model, backends=BACKENDS[backend], cache=False, threads=1, shapes=shapes or None)


def _fault(case: Case, example: Example, results: Sequence[np.ndarray]) -> str:
    description = example.description
    frequency = case.tolerance.get("multinomial_log_prob")
    if frequency is not None:
        return distribution_fault(description, example.inputs, results[0], float(frequency))
    for index, got, wanted in zip(description.outputs, results, example.outputs, strict=True):
        if is_ignored(case, index):
            continue
        if fault := difference(description.operands[index], got, wanted, case.tolerance):
            return fault
    return ""


def _refused(session: Session, kinds: Sequence[str], backend: str) -> list[str]:
    """Which operations run elsewhere, by which record, and why."""
    rows = [row for row in session.placement if row["backend"] != backend]
    return [
        f"{_operation(str(row['source']), kinds)} ({row['kind']}): {_why(row['refused'], backend)}"
        for row in rows
    ]


def _operation(source: str, kinds: Sequence[str]) -> str:
    """The operation that a step is of; inputs and outputs of FLOAT16 have steps of their own."""
    found = (kind for kind in kinds if re.search(rf"\b{kind}_\d+\b", source))
    return next(found, "FLOAT16")


def _why(refused: object, backend: str) -> str:
    reasons = {str(name): str(why) for name, why in refused}  # type: ignore[attr-defined]
    return reasons.get(backend, "")
