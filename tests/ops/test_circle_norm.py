"""INSTANCE_NORM, RMS_NORM and ROPE: what ONE's kernels compute, on both backends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError
from circlet.formats import dumps
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.rope import RopeAttrs
from circlet.ops.verify import verify
from tests.evaluate import evaluate

Arrays = Sequence[np.ndarray]


def network(kind: str, attrs: object, x: np.ndarray, *constants: np.ndarray) -> Graph:
    """One op over an input and constants."""
    b = builder()
    data = b.input("x", DType.FLOAT32, x.shape)
    held = [b.constant(f"c{n}", values.astype(np.float32)) for n, values in enumerate(constants)]
    return b.output(b.op(kind, [data, *held], attrs, name="y")).build()


def assert_native(graph: Graph, x: np.ndarray, level: str = "O2") -> None:
    """A .circle file of the graph runs natively, and gives what the record says."""
    b = builder()
    b.graph = graph
    session = Session(dumps(b.model(), "circle"), backends=("cpu",), cache=False, level=level)
    (got,) = session.run([x]).values()
    (wanted,) = evaluate(graph, [x])
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(got / scale, wanted / scale, rtol=0, atol=1e-5)
    assert {row["source"] for row in session.placement} == {"y"}
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_an_instance_norm_of_an_image_normalises_each_channel() -> None:
    x = np.array([1, 10, 3, 10, 5, 40, 7, 40], np.float32).reshape(1, 2, 2, 2)
    graph = network("INSTANCE_NORM", InstanceNormAttrs(4.0), x, np.r_[2.0, 15.0], np.r_[1.0, 0.0])
    (y,) = evaluate(graph, [x])  # variances 5 and 225: roots of 9 and 229
    wanted = [-1, -15 * 15 / 229**0.5, 1 - 2 / 3, -15 * 15 / 229**0.5]
    np.testing.assert_allclose(y.reshape(-1)[:4], wanted, rtol=1e-6)
    assert y[0, 1, 1, 0] == 3


def test_an_instance_norm_of_rows_has_channels_in_the_middle() -> None:
    x = np.array([1, 3, 10, 30], np.float32).reshape(1, 2, 2)
    attrs = InstanceNormAttrs(0.0, "RELU6")
    graph = network("INSTANCE_NORM", attrs, x, np.r_[2.0, 7.0], np.r_[1.0, 0.0])
    (y,) = evaluate(graph, [x])
    np.testing.assert_allclose(y.reshape(-1), [0, 3, 0, 6])


def test_rms_norms_are_those_of_onert() -> None:
    x = np.arange(8, dtype=np.float32)
    wanted = [0, 1.412802, 0.784404, 1.176606, 0.883431, 1.104288, 0.920347, 1.073738]
    for shape in ((1, 2, 2, 2), (2, 2, 2), (4, 2)):
        graph = network("RMS_NORM", RmsNormAttrs(1e-3), x.reshape(shape), np.ones(2), np.zeros(1))
        (y,) = evaluate(graph, [x.reshape(shape)])
        np.testing.assert_allclose(y.reshape(-1), wanted, atol=1e-6)


def test_rope_turns_pairs_of_halves_or_of_neighbours() -> None:
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)
    sine, cosine = np.r_[0.5, 1, 1, 0.5], np.r_[1, 0.5, 0.5, 1]
    tables = sine.reshape(x.shape), cosine.reshape(x.shape)
    (halves,) = evaluate(network("ROPE", RopeAttrs(), x, *tables), [x])
    np.testing.assert_array_equal(halves.reshape(-1), [1 - 1.5, 1 - 4, 1 + 1.5, 1 + 4])
    (pairs,) = evaluate(network("ROPE", RopeAttrs("GPT_J"), x, *tables), [x])
    np.testing.assert_array_equal(pairs.reshape(-1), [1 - 1, 1 + 1, 1.5 - 4, 1.5 + 4])


CASES: dict[str, tuple[str, object, tuple[int, ...], Arrays]] = {
    "image": (
        *("INSTANCE_NORM", InstanceNormAttrs(1e-5), (2, 9, 7, 5)),
        (np.linspace(-2, 2, 5), np.linspace(1, 3, 5)),
    ),
    "one value": (
        *("INSTANCE_NORM", InstanceNormAttrs(1e-3, "RELU"), (1, 8, 8, 16)),
        (np.r_[1.5], np.r_[-0.25]),
    ),
    "rows": (
        *("INSTANCE_NORM", InstanceNormAttrs(1e-5), (2, 3, 40)),
        (np.linspace(-2, 2, 3), np.linspace(1, 3, 3)),
    ),
    "rms": ("RMS_NORM", RmsNormAttrs(1e-6), (1, 4, 64), (np.linspace(0.5, 2, 64),)),
    "rms and beta": (
        *("RMS_NORM", RmsNormAttrs(1e-6), (2, 3, 3, 20)),
        (np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20)),
    ),
    "rope": (
        *("ROPE", RopeAttrs(), (1, 4, 6, 32)),
        (np.sin(np.arange(192.0)).reshape(1, 1, 6, 32), np.ones((1, 1, 1, 32))),
    ),
    "rope of neighbours": (
        *("ROPE", RopeAttrs("GPT_J"), (2, 2, 3, 10)),
        (np.sin(np.arange(10.0)).reshape(1, 1, 1, 10), np.cos(np.ones((1, 1, 3, 10)))),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_they_run_natively_from_a_file(case: str) -> None:
    kind, attrs, shape, constants = CASES[case]
    x = np.random.default_rng(0).normal(3, 2, shape).astype(np.float32)
    assert_native(network(kind, attrs, x, *constants), x)


def test_they_run_natively_without_optimisation() -> None:
    kind, attrs, shape, constants = CASES["image"]
    x = np.random.default_rng(0).normal(3, 2, shape).astype(np.float32)
    assert_native(network(kind, attrs, x, *constants), x, level="O0")


def test_large_means_leave_variances_exact_enough() -> None:
    x = (np.random.default_rng(0).normal(0, 1, (1, 32, 32, 8)) + 1000).astype(np.float32)
    graph = network("INSTANCE_NORM", InstanceNormAttrs(1e-5), x, np.ones(8), np.zeros(8))
    (wanted,) = evaluate(graph, [x])
    b = builder()
    b.graph = graph
    (got,) = Session(dumps(b.model(), "circle"), backends=("cpu",), cache=False).run([x]).values()
    np.testing.assert_allclose(got, wanted, atol=2e-3)


BROKEN: dict[str, tuple[str, object, tuple[int, ...], Arrays]] = {
    "input_rank": ("INSTANCE_NORM", InstanceNormAttrs(), (3, 4), (np.ones(1), np.ones(1))),
    "channels": ("RMS_NORM", RmsNormAttrs(), (3, 4), (np.ones(3), np.ones(4))),
    "epsilon": ("RMS_NORM", RmsNormAttrs(-1.0), (3, 4), (np.ones(4), np.ones(4))),
    "pairs": ("ROPE", RopeAttrs(), (1, 1, 1, 3), (np.ones((1, 1, 1, 3)),) * 2),
    "tables": ("ROPE", RopeAttrs(), (1, 1, 1, 4), (np.ones((1, 1, 2, 4)),) * 2),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_does_not_fit_breaks_a_rule(rule: str) -> None:
    kind, attrs, shape, constants = BROKEN[rule]
    messages = {
        "input_rank": "the input must be",
        "channels": "gamma and beta",
        "epsilon": "epsilon must be",
        "pairs": "must be known and even",
        "tables": "the tables must",
    }
    with pytest.raises(GraphError, match=messages[rule]):
        verify(network(kind, attrs, np.zeros(shape, np.float32), *constants))


def test_sizes_that_a_file_leaves_open_are_settled_by_each_run() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, None, 24))
    gamma = b.constant("gamma", np.linspace(0.5, 2, 24).astype(np.float32))
    graph = b.output(b.op("RMS_NORM", [x, gamma], RmsNormAttrs(1e-6), name="y")).build()
    session = Session(dumps(b.model(), "circle"), backends=("cpu",), cache=False)
    for shape in ((1, 3, 24), (2, 5, 24)):
        values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        (wanted,) = evaluate(graph, [values])
        np.testing.assert_allclose(session.run([values])["y"], wanted, atol=1e-5)
