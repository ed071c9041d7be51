"""BCQ_FULLY_CONNECTED and BCQ_GATHER: packed signs and scales as weights."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError, LimitError
from circlet.formats import dumps
from circlet.ir import DType, Graph
from circlet.limits import MemoryBudget
from circlet.ops.bcq import BcqFullyConnectedAttrs, BcqGatherAttrs
from circlet.ops.build import builder
from circlet.ops.verify import verify
from circlet.passes.decompose import Decompose
from tests.evaluate import evaluate

CLUSTERS = ((2, 3), (1, 4))  # 3 rows of two terms, then 4 of one
HIDDEN = 40


class Weights:
    """Random weights of two clusters, packed and as they are meant."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        terms = sum(bits * rows for bits, rows in CLUSTERS)
        self.scales = rng.uniform(0.1, 1, terms).astype(np.float32)
        signs = rng.integers(0, 2, (terms, HIDDEN))
        self.packed = np.zeros((terms, 2), np.int64)
        for element in range(HIDDEN):
            self.packed[:, element // 32] |= signs[:, element] << element % 32
        self.packed = self.packed.astype(np.uint32).view(np.int32)
        scaled = self.scales[:, None] * (2 * signs - 1)
        self.real = np.concatenate([scaled[:3] + scaled[3:6], scaled[6:]]).astype(np.float32)


def product(rows: int = 5, activation: str = "NONE", hidden: int = HIDDEN) -> Graph:
    """A BCQ_FULLY_CONNECTED over columns."""
    weights, b = Weights(), builder()
    x = b.input("x", DType.FLOAT32, (HIDDEN, rows))
    held = [b.constant("scales", weights.scales), b.constant("signs", weights.packed)]
    bias = b.constant("bias", np.linspace(-1, 1, 7).astype(np.float32))
    clusters = b.constant("clusters", np.array(CLUSTERS, np.int32))
    attrs = BcqFullyConnectedAttrs(hidden, activation)
    return b.output(
        b.op("BCQ_FULLY_CONNECTED", [x, *held, bias, clusters], attrs, name="y")
    ).build()


def gather(axis: int, indices: tuple[int, ...]) -> Graph:
    """A BCQ_GATHER of computed indices."""
    weights, b = Weights(), builder()
    index = b.input("i", DType.INT32, indices)
    held = [b.constant("scales", weights.scales), b.constant("signs", weights.packed)]
    clusters = b.constant("clusters", np.array(CLUSTERS, np.int32))
    attrs = BcqGatherAttrs(HIDDEN, axis)
    return b.output(b.op("BCQ_GATHER", [*held, index, clusters], attrs, name="y")).build()


def native(graph: Graph, x: np.ndarray) -> np.ndarray:
    """What a .circle file of a graph gives, natively."""
    b = builder()
    b.graph = graph
    session = Session(dumps(b.model(), "circle"), backends=("cpu",), cache=False)
    assert {row["backend"] for row in session.placement} == {"cpu"}
    assert {row["source"] for row in session.placement} == {"y"}
    (got,) = session.run([x]).values()
    return np.asarray(got)


def test_signs_and_scales_of_one_row_are_its_weights() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (3, 1))
    inputs = [
        x,
        b.constant("scales", np.array([2, 0.5], np.float32)),
        b.constant("signs", np.array([[0b011], [0b110]], np.int32)),
        None,
        b.constant("clusters", np.array([[2, 1]], np.int32)),
    ]
    y = b.op("BCQ_FULLY_CONNECTED", inputs, BcqFullyConnectedAttrs(3), name="y")
    (got,) = evaluate(b.output(y).build(), [np.array([[1], [10], [100]], np.float32)])
    assert got.tolist() == [[1.5 * 1 + 2.5 * 10 - 1.5 * 100]]


@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_products_are_those_of_the_real_weights(activation: str) -> None:
    x = np.random.default_rng(1).normal(size=(HIDDEN, 5)).astype(np.float32)
    wanted = Weights().real @ x + np.linspace(-1, 1, 7).astype(np.float32)[:, None]
    wanted = np.clip(wanted, 0, 6) if activation == "RELU6" else wanted
    graph = product(activation=activation)
    np.testing.assert_allclose(evaluate(graph, [x])[0], wanted, atol=1e-5)
    np.testing.assert_allclose(native(graph, x), wanted, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_elements_are_picked(axis: int) -> None:
    index = np.array([[6, 0], [2, 3]], np.int32)
    wanted = Weights().real.take(index, axis)
    graph = gather(axis, index.shape)
    np.testing.assert_array_equal(evaluate(graph, [index])[0], wanted)
    np.testing.assert_array_equal(native(graph, index), wanted)


def test_an_index_outside_is_taken_to_the_nearest_row() -> None:
    index = np.array([7, -1], np.int32)
    wanted = Weights().real[[6, 0]]
    np.testing.assert_array_equal(evaluate(gather(0, (2,)), [index])[0], wanted)
    np.testing.assert_array_equal(native(gather(0, (2,)), index), wanted)


def test_sizes_that_do_not_fit_break_a_rule() -> None:
    with pytest.raises(GraphError, match="as many as the clusters' bits times rows"):
        verify(product(hidden=70))


def test_unpacked_weights_are_charged() -> None:
    with pytest.raises(LimitError, match="more memory than allowed"):
        Decompose(MemoryBudget(1000)).run(product())
