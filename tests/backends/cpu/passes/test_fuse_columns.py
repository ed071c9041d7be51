"""Softmaxes and local response norms between transposes run down columns."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph
from circlet.ops import NoAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fused import FUSED_COLUMNS
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.passes import PassManager
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable

SOFTMAX, LOG_SOFTMAX = SoftmaxAttrs(0.7), NoAttrs()
KINDS = {
    SoftmaxAttrs: "SOFTMAX",
    NoAttrs: "LOG_SOFTMAX",
    LocalResponseNormAttrs: "LOCAL_RESPONSE_NORMALIZATION",
}
NORMS = [LocalResponseNormAttrs(2, 1.5, 0.3, beta) for beta in (0.75, 0.5, 1.0, 0.3)]


def along(
    shape: tuple[int, ...],
    axis: int,
    back: tuple[int, ...] | None = None,
    attrs: object = SOFTMAX,
    behind: str = "",
) -> Cases:
    """What runs along an axis, brought to the end and back, and what runs ahead of that."""
    cases = Cases()
    order = (*(a for a in range(len(shape)) if a != axis), axis)
    x = cases.data(DType.FLOAT32, shape)
    turned = cases.op("TRANSPOSE", [x, cases.constant(np.array(order, np.int32))], NoAttrs())
    made = cases.op(KINDS[type(attrs)], [turned], attrs)
    if behind:
        made = cases.op(behind, [made, made] if behind == "MUL" else [made])
    places = np.argsort(order) if back is None else np.array(back)
    last = cases.constant(places.astype(np.int32))
    cases.outputs = [cases.op("TRANSPOSE", [made, last], NoAttrs())]
    return cases


def fused(cases: Cases, *others: str) -> Graph:
    """What runs down columns as one op."""
    graph = cases.graph()
    assert PassManager((PASSES.made(["fuse-columns"], {})[0],), check=True).run(graph).applied
    assert [op.kind for op in graph.ops] == [FUSED_COLUMNS, *others]
    return graph


@each_width
@pytest.mark.parametrize(
    "attrs", [SOFTMAX, LOG_SOFTMAX, *NORMS], ids=["softmax", "log", "3/4", "1/2", "1", "0.3"]
)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 21, 9, 15), 1), ((3, 5, 70), 1), ((40, 8), 0), ((2, 3, 1000, 4, 2), 2), ((2, 1, 130), 1)],
)
def test_columns_give_what_rows_give(
    shape: tuple[int, ...], axis: int, attrs: object, target: str
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = along(shape, axis, attrs=attrs)
    wanted = evaluate_graph(cases.graph(), cases.inputs)
    graph = fused(along(shape, axis, attrs=attrs))
    np.testing.assert_array_equal(evaluate_graph(graph, cases.inputs)[0], wanted[0])
    one, two = (run_native(graph, cases.inputs, target, threads)[0] for threads in (1, 2))
    np.testing.assert_allclose(one, wanted[0], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(one, two)


def test_what_is_element_wise_runs_behind_columns() -> None:
    cases = along((2, 5, 70), 1, behind="TANH")
    (wanted,) = evaluate_graph(cases.graph(), cases.inputs)
    graph = fused(along((2, 5, 70), 1, behind="TANH"), "TANH")
    np.testing.assert_array_equal(evaluate_graph(graph, cases.inputs)[0], wanted)


@pytest.mark.parametrize(
    "cases",
    [
        along((2, 5, 4), 1),
        along((2, 5, 4, 4), 1, (0, 1, 2, 3)),
        along((1, 2000, 16), 1),
        along((2, 5, 16), 1, behind="MUL"),
        along((2, 5, 16), 1, attrs=LocalResponseNormAttrs(2, 1.0, -0.1, 0.75)),
    ],
    ids=["few columns", "another order", "long columns", "read twice", "powers of less than 0"],
)
def test_others_stay(cases: Cases) -> None:
    assert not PASSES.made(["fuse-columns"], {})[0].run(cases.graph())
