"""Loops over a cell, as .onnx files and TensorFlow have them, are layers; other loops stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import DType, Model, Op, Tensor
from circlet.ir.builder import constant
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.operands import operand
from circlet.ops.shape import ReshapeAttrs
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

    def gru(self) -> None:
        """A step of a GRU whose reset gate comes behind the weights; it has no c."""
        of_data = ["x_z", "x_r", "x_n"]
        of_state = ["h_z", "h_r", "h_n"]
        for source, size, names in (("x", INPUTS, of_data), ("h", CELLS, of_state)):
            weights = self.numbers(size, 3 * CELLS), self.numbers(3 * CELLS)
            self("Split", self("Gemm", source, *weights), to=names, axis=1)
        update = self("Sigmoid", self("Add", "x_z", "h_z"))
        reset = self("Sigmoid", self("Add", "x_r", "h_r"))
        fresh = self("Tanh", self("Add", "x_n", self("Mul", reset, "h_n")))
        rest = self("Sub", self.one(), update)
        self("Add", self("Mul", update, "h"), self("Mul", rest, fresh), to=["h_next"])
        self("Identity", "h_next", to=["y"])

    def rnn(self) -> None:
        """A step of a simple RNN."""
        data = self("Gemm", "x", self.numbers(INPUTS, CELLS), self.numbers(CELLS))
        self(
            "Tanh",
            self("Add", data, self("MatMul", "h", self.numbers(CELLS, CELLS))),
            to=["h_next"],
        )
        self("Identity", "h_next", to=["y"])

    def one(self) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.float32(1), "one"))
        return "one"


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
    rewritten(model.main, "recognise-recurrent", tolerance=1e-5)
    assert labels(model) == ["CUSTOM:onnx.LSTM"]


def scanned_output(body: Body) -> Model:
    """A loop over x that carries h alone."""
    state = (IMAGES, CELLS)
    inner = onnx.helper.make_graph(
        body.nodes,
        "body",
        [info("h", *state), info("x", IMAGES, INPUTS)],
        [info("h_next", *state), info("y", *state)],
        body.constants,
    )
    scan = onnx.helper.make_node(
        "Scan", ["h0", "seq"], ["h_last", "all"], body=inner, num_scan_inputs=1
    )
    graph = onnx.helper.make_graph(
        [scan],
        "g",
        [info("h0", *state), info("seq", STEPS, IMAGES, INPUTS)],
        [info("h_last", *state), info("all", STEPS, *state)],
    )
    opset = onnx.helper.make_opsetid("", 17)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return load(made.SerializeToString())


@pytest.mark.parametrize("kind", ["gru", "rnn"])
def test_a_scan_of_a_cell_with_one_state_is_its_layer(kind: str) -> None:
    body = Body()
    getattr(body, kind)()
    model = settled(scanned_output(body))
    rewritten(model.main, "recognise-recurrent", tolerance=1e-5)
    assert labels(model) == [f"CUSTOM:onnx.{kind.upper()}"]


def as_tensorflow(model: Model, *, bound: int = STEPS) -> None:
    """Have the loop count twice, and go on while both numbers are below a bound, as Keras' do."""
    (loop,) = (op for op in model.main.ops if op.kind == "WHILE")
    condition, body = loop.regions
    (test,) = condition.ops
    turn = condition.inputs.index(operand(test, 0))
    step = body.producers()[body.outputs[turn]]
    again = [Tensor(f"again{i}", DType.INT32, ()) for i in range(5)]
    zero, one, last = (constant(f"number{n}", np.array(n, np.int32)) for n in (0, 1, bound))
    origin = loop.origin
    body.inputs.append(again[0])
    body.outputs.append(again[1])
    body.ops.append(Op("ADD", [again[0], one], [again[1]], step.attrs, origin))
    condition.inputs.append(again[2])
    both = [Tensor(name, DType.BOOL, ()) for name in ("less", "both")]
    condition.ops.append(Op("LESS", [again[2], last], [both[0]], test.attrs, origin))
    pair: list[Tensor | None] = [test.outputs[0], both[0]]
    condition.ops.append(Op("LOGICAL_AND", pair, [both[1]], test.attrs, origin))
    condition.outputs[:] = [both[1]]
    loop.inputs.append(zero)
    loop.outputs.append(again[3])
    body.tensors += [again[0], again[1], one]
    condition.tensors += [again[2], last, *both]
    model.main.tensors += [zero, again[3]]


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_loop_may_count_twice(kind: str) -> None:
    body = Body()
    if kind == "lstm":
        body.step(body.joined())
        model = settled(scanned(body))
    else:
        getattr(body, kind)()
        model = settled(scanned_output(body))
    as_tensorflow(model)
    rewritten(model.main, "recognise-recurrent", tolerance=1e-5)
    assert labels(model) == [f"CUSTOM:onnx.{kind.upper()}"]


def test_a_list_of_the_last_output_is_written_too() -> None:
    """Keras carries one where it is not to return sequences: every turn writes it anew."""
    body = Body()
    body.gru()
    model = settled(scanned_output(body))
    (loop,) = (op for op in model.main.ops if op.kind == "WHILE")
    condition, inner = loop.regions
    made = inner.producers()
    shown = next(t for t in inner.outputs if t in made and made[t].kind == "ADD" and t.shape)
    sizes = (1, IMAGES, CELLS)
    carried = [Tensor(f"list{i}", DType.FLOAT32, sizes) for i in range(4)]
    start = constant("none", np.zeros(sizes, np.float32))
    shape = constant("sizes", np.array(sizes, np.int32))
    reshape = Op("RESHAPE", [shown, shape], [carried[1]], ReshapeAttrs(sizes), loop.origin)
    inner.ops.append(reshape)
    inner.inputs.append(carried[0])
    inner.outputs.append(carried[1])
    inner.tensors += [carried[0], carried[1], shape]
    condition.inputs.append(carried[2])
    condition.tensors.append(carried[2])
    loop.inputs.append(start)
    loop.outputs.append(carried[3])
    model.main.tensors += [start, carried[3]]
    model.main.outputs.append(carried[3])
    rewritten(model.main, "recognise-recurrent", tolerance=1e-5)
    assert labels(model) == ["CUSTOM:onnx.GRU"]


def test_a_loop_that_ends_sooner_stays() -> None:
    body = Body()
    body.gru()
    model = settled(scanned_output(body))
    as_tensorflow(model, bound=STEPS - 1)
    make("recognise-recurrent").run(model.main)
    assert "WHILE" in labels(model)


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
    make("recognise-recurrent").run(model.main)
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
