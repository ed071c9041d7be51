"""Weights below the normal numbers are zero, where larger ones stand beside them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph, Tensor
from circlet.ops.evaluate import evaluate_graph
from tests.backends.cpu.cases import Cases
from tests.windows import conv2d_attrs

F32 = DType.FLOAT32


def _network(values: np.ndarray) -> tuple[Cases, Graph]:
    cases = Cases()
    weights = cases.constant(values.astype(np.float32))
    cases.op("CONV_2D", [cases.data(F32, (1, 4, 4, 8)), weights, None], conv2d_attrs("SAME"))
    return cases, cases.graph()


def _weights(graph: Graph) -> Tensor:
    (tensor,) = (t for t in graph.ops[0].inputs if t is not None and t.is_constant)
    return tensor


def test_they_become_zero_and_answers_stay() -> None:
    values = np.full((6, 1, 1, 8), 3e-39)
    values[:, :, :, ::2] = np.linspace(-1, 1, 24).reshape(6, 1, 1, 4)
    values[0, 0, 0, 1] = -1.2e-38  # the least normal number is 1.18e-38
    cases, graph = _network(values)
    before, stored = evaluate_graph(graph, cases.inputs), _weights(graph)
    assert PASSES.made(["flush-subnormals"], {})[0].run(graph)
    kept = _weights(graph).data
    assert kept is not None and kept[0, 0, 0, 1] == np.float32(-1.2e-38)
    assert np.count_nonzero(kept) == 24 + 1
    assert stored.data is not None and np.count_nonzero(stored.data) == values.size
    for got, want in zip(evaluate_graph(graph, cases.inputs), before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("least", [2e-38, 3e-39])
def test_tensors_without_them_and_tensors_of_nothing_else_stay(least: float) -> None:
    _, graph = _network(np.full((6, 1, 1, 8), least))
    assert not PASSES.made(["flush-subnormals"], {})[0].run(graph)
