"""Named entry points of a model."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Signature
from circlet.ops.build import builder
from circlet.runtime.session import Session


def scaled(name: str, factor: float) -> Graph:
    b = builder(name)
    x = b.input(f"{name}_x:0", DType.FLOAT32, (1, 2))
    return b.output(
        b.op("MUL", [x, b.constant("factor", np.array([factor], np.float32))], name="y")
    ).build()


@pytest.fixture(scope="module")
def model() -> bytes:
    graphs = [scaled("double", 2), scaled("triple", 3)]
    signatures = [
        Signature(g.name, g, {"x": g.inputs[0]}, {"answer": g.outputs[0]}) for g in graphs
    ]
    return bytes(dumps(Model(graphs, signatures=signatures), "tflite"))


@pytest.mark.parametrize(("key", "factor"), [("double", 2), ("triple", 3)])
def test_a_signature_is_run_by_its_own_names(model: bytes, key: str, factor: int) -> None:
    session = Session(model, signature=key, threads=1)
    x = np.array([[1, 5]], np.float32)
    np.testing.assert_array_equal(session.run({"x": x})["answer"], factor * x)


def test_without_a_signature_the_first_graph_runs_by_the_files_names(model: bytes) -> None:
    session = Session(model, threads=1)
    assert [value.name for value in session.inputs] == ["double_x:0"]
    assert list(session.run([np.zeros((1, 2), np.float32)])) == ["y"]


def test_an_unknown_signature_is_refused_with_those_there_are(model: bytes) -> None:
    with pytest.raises(InputError, match="triple"):
        Session(model, signature="quadruple")


@pytest.mark.parametrize("rows", [2, None])
def test_inputs_and_results_may_come_out_under_several_names(rows: int | None) -> None:
    b = builder()
    x = b.input("a:0", DType.FLOAT32, (rows, 2))
    y = b.op("NEG", [x], name="b:0")
    graph = b.output(y).build()
    graph.outputs.append(x)
    outputs = {"first": y, "second": y, "same": x}
    file = dumps(Model([graph], signatures=[Signature("s", graph, {"x": x}, outputs)]), "tflite")
    session = Session(file, signature="s", threads=1)
    given = np.array([[1, 5], [2, 3]], np.float32)
    results = session.run({"x": given})
    assert sorted(results) == ["first", "same", "second"]
    for name, wanted in (("first", -given), ("second", -given), ("same", given)):
        np.testing.assert_array_equal(results[name], wanted)
