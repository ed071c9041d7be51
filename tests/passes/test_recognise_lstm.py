"""Loops over an LSTM's cell, as .onnx files have them, are LSTMs; other loops stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS
from circlet.passes import make, pipeline
from circlet.plan.shapes import fix_shapes
from tests.corpora import corpus
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import rewritten

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
F32 = 1
STEPS, IMAGES, INPUTS, CELLS = 6, 2, 3, 4


class Body:
    """Nodes of a step over x [images, inputs], h and c [images, cells]."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []
        self._random = np.random.default_rng(8)

    def __call__(self, kind: str, *operands: str, to: Sequence[str] = (), **more: object) -> str:
        results = list(to) or [f"t{len(self.nodes)}"]
        self.nodes.append(onnx.helper.make_node(kind, list(operands), results, **more))
        return results[0]

    def numbers(self, *sizes: int) -> str:
        values = self._random.normal(0, 0.7, sizes).astype(np.float32)
        name = f"w{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(values, name))
        return name

    def joined(self) -> list[str]:
        """The gates of one product over both operands, split."""
        both = self("Concat", "x", "h", axis=1)
        made = self("Gemm", both, self.numbers(INPUTS + CELLS, 4 * CELLS), self.numbers(4 * CELLS))
        names = ["g_i", "g_j", "g_f", "g_o"]
        self("Split", made, to=names, axis=1)
        return names

    def apart(self) -> list[str]:
        """The gates of products of their own, one of them with its weights on the left."""
        return [
            self(
                "Add",
                self("Add", self("MatMul", "x", self.numbers(INPUTS, CELLS)), self.numbers(CELLS)),
                self("MatMul", "h", self.numbers(CELLS, CELLS)),
            )
            for _ in range(4)
        ]

    def step(self, gates: Sequence[str], *, candidate: str = "Tanh", keeps: str = "c") -> None:
        i, j, f, o = gates
        new = self("Mul", self("Sigmoid", i), self(candidate, j))
        self("Add", new, self("Mul", keeps, self("Sigmoid", f)), to=["c_next"])
        self("Mul", self("Tanh", "c_next"), self("Sigmoid", o), to=["h_next"])
        self("Identity", "h_next", to=["y"])


def info(name: str, *sizes: int) -> object:
    return onnx.helper.make_tensor_value_info(name, F32, list(sizes))


def scanned(body: Body, **more: object) -> Model:
    """A network that scans x [steps, images, inputs] from states that it is given."""
    state = (IMAGES, CELLS)
    inner = onnx.helper.make_graph(
        body.nodes,
        "step",
        [info("h", *state), info("c", *state), info("x", IMAGES, INPUTS)],
        [info("h_next", *state), info("c_next", *state), info("y", *state)],
        body.constants,
    )
    operands, results = ["h0", "c0", "seq"], ["h_last", "c_last", "all"]
    scan = onnx.helper.make_node("Scan", operands, results, body=inner, num_scan_inputs=1, **more)
    graph = onnx.helper.make_graph(
        [scan],
        "g",
        [info("h0", *state), info("c0", *state), info("seq", STEPS, IMAGES, INPUTS)],
        [info("h_last", *state), info("c_last", *state), info("all", STEPS, *state)],
    )
    opset = onnx.helper.make_opsetid("", 17)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return load(made.SerializeToString())


def settled(model: Model) -> Model:
    fix_shapes(model.main, DEFAULT_LIMITS)
    make("fold-constants").run(model.main)
    return model


def labels(model: Model) -> list[str]:
    return [op.label for op in model.main.ops if op.kind != "RESHAPE"]


@pytest.mark.parametrize("form", ["joined", "apart"])
def test_a_scan_of_a_cell_is_an_lstm(form: str) -> None:
    body = Body()
    body.step(getattr(body, form)())
    model = settled(scanned(body))
    rewritten(model.main, "recognise-lstm", tolerance=1e-5)
    assert labels(model) == ["CUSTOM:onnx.LSTM"]


@pytest.mark.parametrize(
    "case", ["other_function", "gate_sees_the_cell", "keeps_the_output", "square", "backwards"]
)
def test_other_loops_stay(case: str) -> None:
    body = Body()
    gates = body.joined()
    if case == "gate_sees_the_cell":
        gates[0] = body("Add", gates[0], "c")
    if case == "square":
        gates[0] = body("Mul", gates[0], gates[0])
    body.step(
        gates,
        candidate="Relu" if case == "other_function" else "Tanh",
        keeps="h" if case == "keeps_the_output" else "c",
    )
    more = {"scan_input_directions": [1]} if case == "backwards" else {}
    model = settled(scanned(body, **more))
    inputs = random_inputs(model.main)
    wanted = evaluate(model.main, inputs)
    make("recognise-lstm").run(model.main)
    assert "CUSTOM:onnx.LSTM" not in labels(model) or case == "backwards"
    for got, want in zip(evaluate(model.main, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_the_public_network_of_scans_is_four_lstms() -> None:
    model = load(corpus("models/scan_lstm.onnx"))
    model.main.inputs[0].shape = (7, 1, 3)
    fix_shapes(model.main, DEFAULT_LIMITS)
    inputs = random_inputs(model.main)
    wanted = evaluate(model.main, inputs)
    pipeline("O2", check=True).run(model)
    assert labels(model) == ["CUSTOM:onnx.LSTM"] * 4
    for got, want in zip(evaluate(model.main, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
