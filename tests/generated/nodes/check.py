"""Runs generated ONNX nodes on backends and by ONNX's reference implementation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from circlet.errors import CircletError
from circlet.ops import OpDef
from circlet.ops.onnx.record import PREFIX
from circlet.runtime.session import Session
from tests.generated.compare import differences
from tests.generated.draw import Draw
from tests.generated.nodes.case import NodeCase, NodeDraw, allowed_types, joined, newest_opset
from tests.generated.nodes.layers import LAYERS
from tests.generated.nodes.positions import POSITIONS
from tests.generated.nodes.recipes import PLAIN
from tests.generated.nodes.undefined import excused
from tests.generated.outcome import Outcome

NODES = {**LAYERS, **PLAIN, **POSITIONS}
GROUP = 60


def make_node_case(record: OpDef, seed: int, number: int) -> NodeCase:
    """Case `number` of a kind; consecutive numbers go through all types of its first input."""
    from onnx import defs

    name = record.kind.partition(PREFIX)[2]
    schema, draw = defs.get_schema(name, newest_opset()), Draw(seed, record.kind, number)
    types = allowed_types(schema, schema.inputs[0].type_str)
    made = NODES[name](NodeDraw(draw, schema, types[number % len(types)]))
    return NodeCase(f"{name}_{seed}_{number}", record.kind, made)


def judged(case: NodeCase) -> list[np.ndarray] | str:
    """What ONNX's reference implementation gives, or why it does not."""
    from onnx.reference import ReferenceEvaluator

    inputs, constants, _ = case.ends()
    names = [value.name for value in inputs]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(_model(case, inputs, constants))
            found = evaluator.run(None, dict(zip(names, case.inputs, strict=True)))
    except Exception as error:  # it raises anything
        return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return [np.asarray(array) for array in found]


def _model(case: NodeCase, inputs: Sequence[object], constants: Sequence[object]) -> object:
    from onnx import helper

    node = case.node()
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], case.name, inputs, outputs, initializer=constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest_opset())])


def check_nodes(cases: Iterable[NodeCase], backends: Sequence[str]) -> list[Outcome[NodeCase]]:
    """One outcome for each case; what the judge refuses is compared with `reference`."""
    outcomes = []
    for case in cases:
        case.wanted = judged(case)
        outcome = Outcome(case)
        outcomes.append(outcome)
        if isinstance(case.wanted, str):
            outcome.judged, outcome.why = "refused", case.wanted
            _run_alone(outcome)
        else:
            outcome.wanted = case.wanted
    runnable = [outcome for outcome in outcomes if outcome.status == "run"]
    for backend in backends:
        for start in range(0, len(runnable), GROUP):
            _on_backend(runnable[start : start + GROUP], backend)
    for outcome in runnable:
        faults = [what for what, _ in outcome.findings]
        outcome.judged = outcome.judged or ("differs" if faults else "agreed")
    return outcomes


def _run_alone(outcome: Outcome[NodeCase]) -> None:
    """What `reference` gives is wanted of other backends, where the judge is silent."""
    case = outcome.case
    try:
        session = Session(joined([case]), backends=("reference",), cache=False)
        case.wanted = outcome.wanted = list(session.run(case.inputs).values())
    except CircletError as error:
        outcome.status, outcome.why = "failed", str(error)
    except Exception as error:  # what is looked for here
        outcome.status = "failed"
        outcome.findings.append(("reference", f"no code: {error!r}"))


def _on_backend(group: Sequence[Outcome[NodeCase]], backend: str) -> None:
    """Compare a group on a backend; where it fails as a whole, its halves."""
    cases = [outcome.case for outcome in group]
    backends = (backend, "reference") if backend != "reference" else (backend,)
    given = [array for case in cases for array in case.inputs]
    try:
        session = Session(joined(cases), backends=backends, cache=False)
        results = list(session.run(given).values())
    except Exception as error:
        if len(group) > 1:
            half = len(group) // 2
            _on_backend(group[:half], backend)
            _on_backend(group[half:], backend)
            return
        coded = "" if isinstance(error, CircletError) else "no code: "
        _found(group[0], backend, f"{coded}{' '.join(str(error).split())[:300]}")
        return
    others = {str(row["source"]) for row in session.placement if row["backend"] != backend}
    start = 0
    for outcome in group:
        count = len(outcome.wanted)
        fault = differences(results[start : start + count], outcome.wanted, by_element=False)
        start += count
        outcome.native = backend == "cpu" and not any(
            name.startswith(outcome.case.name) for name in others
        )
        if fault:
            _found(outcome, backend, fault)


def _found(outcome: Outcome[NodeCase], backend: str, fault: str) -> None:
    """Note a fault, unless it is one that is known and has a reason."""
    if excused(outcome.case):
        outcome.judged = "excused"
        return
    outcome.findings.append((backend, fault))
