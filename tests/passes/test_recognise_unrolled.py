"""Recurrent layers that are spelled out step by step are single operators; other steps stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS
from circlet.passes import make
from circlet.plan.shapes import fix_shapes
from tests.passes.harness import rewritten

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
F32 = 1
STEPS, IMAGES, INPUTS, CELLS = 5, 2, 3, 4


class Unrolled:
    """Nodes of steps over x, as PyTorch's exporter and Keras write them.

    Args:
        kind: The cell, of `CELLS_OF`.
        is_batch_first: Whether x is [images, time, inputs].
    """

    def __init__(self, kind: str, *, is_batch_first: bool = False) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []
        self.random = np.random.default_rng(3)
        self.axis = 1 if is_batch_first else 0
        self.cell = CELLS_OF[kind]
        gates = {"lstm": 4, "rnn": 1}.get(kind, 3)
        self.weights = [
            self.numbers(gates * CELLS, INPUTS),
            self.numbers(gates * CELLS),
            self.numbers(gates * CELLS, CELLS),
            self.numbers(gates * CELLS),
        ]

    def __call__(self, kind: str, *operands: str, to: Sequence[str] = (), **more: object) -> str:
        results = list(to) or [f"t{len(self.nodes)}"]
        self.nodes.append(onnx.helper.make_node(kind, list(operands), results, **more))
        return results[0]

    def constant(self, values: object, dtype: type = np.float32) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def numbers(self, *sizes: int) -> str:
        return self.constant(self.random.normal(0, 0.7, sizes))

    def gates(self, value: str, half: int, count: int) -> list[str]:
        """What gates read of the input of a step (half 0) or of the output before (half 1)."""
        made = self("Gemm", value, *self.weights[2 * half : 2 * half + 2], transB=1)
        names = [f"{made}_{index}" for index in range(count)]
        self("Split", made, to=names, axis=1)
        return names

    def element(self, place: int, how: str) -> str:
        if how == "gather":
            return self("Gather", "x", self.constant(place, np.int64), axis=self.axis)
        ends = [self.constant([number], np.int64) for number in (place, place + 1, self.axis)]
        return self("Squeeze", self("Slice", "x", *ends), ends[2])

    def model(self, outputs: Sequence[str], *, shape: Sequence[int]) -> Model:
        """The model over x and the states before the first step."""
        sizes = (IMAGES, STEPS, INPUTS) if self.axis else (STEPS, IMAGES, INPUTS)
        given = [("x", sizes), ("h", (IMAGES, CELLS)), ("c", (IMAGES, CELLS))]
        read = {name for node in self.nodes for name in node.input}  # type: ignore[attr-defined]
        inputs = [
            onnx.helper.make_tensor_value_info(name, F32, size)
            for name, size in given
            if name in read
        ]
        results = [onnx.helper.make_tensor_value_info(name, F32, shape) for name in outputs]
        graph = onnx.helper.make_graph(self.nodes, "g", inputs, results, self.constants)
        opset = onnx.helper.make_opsetid("", 17)
        made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
        found = load(made.SerializeToString())
        fix_shapes(found.main, DEFAULT_LIMITS)
        make("fold-constants").run(found.main)
        return found


State = tuple[str, str]


def lstm(n: Unrolled, x: str, state: State) -> State:
    h, c = state
    data = n.gates(x, 0, 4)
    last = n.gates(h, 1, 4)
    i, f, g, o = (n("Add", *pair) for pair in zip(data, last, strict=True))
    kept = n("Mul", n("Sigmoid", f), c)
    c = n("Add", kept, n("Mul", n("Sigmoid", i), n("Tanh", g)))
    return n("Mul", n("Sigmoid", o), n("Tanh", c)), c


def gru(n: Unrolled, x: str, state: State) -> State:
    """As PyTorch's: (h - n) * z + n."""
    h, c = state
    r, z, new = n.gates(x, 0, 3)
    last_r, last_z, last_new = n.gates(h, 1, 3)
    reset = n("Sigmoid", n("Add", r, last_r))
    update = n("Sigmoid", n("Add", z, last_z))
    fresh = n("Tanh", n("Add", new, n("Mul", reset, last_new)))
    return n("Add", n("Mul", n("Sub", h, fresh), update), fresh), c


def gru_reset_first(n: Unrolled, x: str, state: State) -> State:
    """The reset gate in front of the weights, and z * h + (1 - z) * n."""
    h, c = state
    (r, z, new), (last_r, last_z, _) = n.gates(x, 0, 3), n.gates(h, 1, 3)
    reset = n("Sigmoid", n("Add", r, last_r))
    update = n("Sigmoid", n("Add", z, last_z))
    _, _, last_new = n.gates(n("Mul", reset, h), 1, 3)
    fresh = n("Tanh", n("Add", new, last_new))
    rest = n("Sub", n.constant(1.0), update)
    return n("Add", n("Mul", update, h), n("Mul", rest, fresh)), c


def rnn(n: Unrolled, x: str, state: State) -> State:
    h, c = state
    data, last = n.gates(x, 0, 1), n.gates(h, 1, 1)
    return n("Tanh", n("Add", data[0], last[0])), c


Cell = Callable[[Unrolled, str, State], State]
CELLS_OF: dict[str, Cell] = {
    "lstm": lstm,
    "gru": gru,
    "gru_reset_first": gru_reset_first,
    "rnn": rnn,
}
KINDS = {kind: f"CUSTOM:onnx.{kind.partition('_')[0].upper()}" for kind in CELLS_OF}


def ran(n: Unrolled, places: Sequence[int], how: str = "gather") -> list[State]:
    """The states behind each step."""
    states = [("h", "c")]
    for place in places:
        states.append(n.cell(n, n.element(place, how), states[-1]))
    return states[1:]


def labels(model: Model) -> list[str]:
    return [op.label for op in model.main.ops]


def recognised(model: Model) -> list[str]:
    """The kinds of a model's ops behind the pass, which must not change what it answers."""
    rewritten(model.main, "recognise-unrolled", tolerance=1e-5)
    make("remove-dead-ops").run(model.main)
    return labels(model)


@pytest.mark.parametrize("kind", CELLS_OF)
@pytest.mark.parametrize("is_batch_first", [False, True])
@pytest.mark.parametrize("is_backward", [False, True])
def test_steps_of_a_cell_are_a_layer(kind: str, is_batch_first: bool, is_backward: bool) -> None:
    """The last state alone is read: what is left are the layer and changes of sizes."""
    n = Unrolled(kind, is_batch_first=is_batch_first)
    order = range(STEPS)[::-1] if is_backward else range(STEPS)
    states = ran(n, list(order), "gather" if is_batch_first else "slice")
    found = recognised(n.model([states[-1][0]], shape=(IMAGES, CELLS)))
    assert set(found) == {KINDS[kind], "RESHAPE"}


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_all_outputs_may_be_read(kind: str) -> None:
    n = Unrolled(kind)
    states = ran(n, range(STEPS))
    wide = [n("Unsqueeze", h, n.constant([1], np.int64)) for h, _ in states]
    n("Concat", *wide, to=["y"], axis=1)
    found = recognised(n.model(["y"], shape=(IMAGES, STEPS, CELLS)))
    assert found.count(KINDS[kind]) == 1
    assert "TANH" not in found


def test_the_last_cell_state_may_be_read() -> None:
    n = Unrolled("lstm")
    found = recognised(n.model([*ran(n, range(STEPS))[-1]], shape=(IMAGES, CELLS)))
    assert set(found) == {KINDS["lstm"], "RESHAPE"}


def test_a_part_of_a_sequence_is_cut_out() -> None:
    n = Unrolled("gru", is_batch_first=True)
    found = recognised(n.model([ran(n, [1, 2, 3])[-1][0]], shape=(IMAGES, CELLS)))
    assert set(found) == {KINDS["gru"], "RESHAPE", "SLICE"}


def test_layers_over_layers_are_found() -> None:
    n = Unrolled("lstm")
    below = ran(n, range(STEPS))
    n.weights = [n.numbers(4 * CELLS, CELLS), *n.weights[1:]]
    state = ("h", "c")
    for data, _ in below:
        state = n.cell(n, data, state)
    model = n.model([state[0]], shape=(IMAGES, CELLS))
    assert recognised(model).count(KINDS["lstm"]) == 2


@pytest.mark.parametrize("case", ["other_weights", "twice", "skips", "reads_more", "state_is_read"])
def test_other_steps_stay(case: str) -> None:
    n = Unrolled("lstm")
    order = {"twice": [0, 0, 2, 2, 4], "skips": [0, 2, 4]}.get(case, list(range(STEPS)))
    outputs, state = [], ("h", "c")
    for before, place in pairwise([-1, *order]):
        if case == "other_weights":
            n.weights = [n.numbers(4 * CELLS, INPUTS), *n.weights[1:]]
        data = n.element(place, "gather")
        if case == "reads_more" and before >= 0:
            data = n("Add", data, n.element(before, "gather"))
        state = n.cell(n, data, state)
        outputs.append(state[1])
    read = outputs if case == "state_is_read" else [state[0]]
    assert KINDS["lstm"] not in recognised(n.model(read, shape=(IMAGES, CELLS)))
