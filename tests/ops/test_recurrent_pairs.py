"""Plain and bidirectional recurrent kinds beside LiteRT's reference kernels, and Circle's GRU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load
from circlet.formats.schema import by_name
from circlet.formats.write_model import write_model
from circlet.ir import DType, Graph, Model
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.gru import GruAttrs
from circlet.ops.verify import verify
from tests.recurrent import run_records, steps_for
from tests.recurrent_pairs import RNN, TWO_LSTM, TWO_RNN, Pair, gru_graph, pair_graph

RUNS = 2
PLAIN = (
    Pair(RNN),
    *(Pair(activation=name) for name in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")),
    Pair(time_major=True),
    Pair(TWO_RNN),
    Pair(TWO_RNN, time_major=True, merge=True),
    Pair(TWO_RNN, aux="weights", merge=True),
    Pair(TWO_RNN, aux="input", time_major=True),
)
EVEN = (2, 3, 5, 6, 6)  # LiteRT wants as many cells backwards as forwards
LSTMS = (
    Pair(TWO_LSTM, EVEN),
    Pair(TWO_LSTM, EVEN, time_major=True, merge=True, look=True),
    Pair(TWO_LSTM, EVEN, has_input=False, projection=3, clips=(0.4, 0.3)),
    Pair(TWO_LSTM, EVEN, aux="weights", merge=True, time_major=True),
    Pair(TWO_LSTM, (1, 3, 5, 6, 6), aux="weights"),  # LiteRT goes astray in a second batch
    Pair(TWO_LSTM, EVEN, aux="input"),
)
# LiteRT reads zero points that are not there where merged outputs of several batches are symmetric.
HYBRID = tuple(
    replace(form, weights=DType.INT8, asymmetric=asymmetric)
    for form in (Pair(RNN), Pair(), *PLAIN[6:], *LSTMS)
    for asymmetric in (False, True)
    if asymmetric or not (form.kind == TWO_RNN and form.merge and form.time_major)
)


def _peer(graph: Graph, steps: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """LiteRT's outputs of every run, its variable tensors kept."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    interpreter = litert.Interpreter(
        model_content=bytes(write_model(Model([graph]), by_name("tflite"), origins=False)),
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    rows = []
    for step in steps:
        for detail, values in zip(interpreter.get_input_details(), step, strict=True):
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        details = interpreter.get_output_details()
        rows.append([interpreter.get_tensor(detail["index"]).copy() for detail in details])
    return rows


@pytest.mark.parametrize("form", (*PLAIN, *LSTMS, *HYBRID), ids=lambda form: form.label)
def test_a_layer_gives_what_litert_gives(form: Pair) -> None:
    graph = pair_graph(form)
    verify(graph)
    steps = steps_for(graph, RUNS)
    records = run_records(graph, steps)
    for wanted, got in zip(_peer(graph, steps), records, strict=True):
        for expected, made in zip(wanted, got, strict=False):
            np.testing.assert_allclose(made, expected, rtol=0, atol=1e-5)


def test_a_plain_cell_is_the_activation_of_all_products() -> None:
    graph = pair_graph(Pair(RNN, (1, 1, 2, 3, 1), "NONE"))
    weights, recurrent, bias = (np.asarray(t.data) for t in graph.tensors if t.data is not None)
    steps = steps_for(graph, 2)
    state = np.zeros((1, 3), np.float32)
    for (x,), (made, kept) in zip(steps, run_records(graph, steps), strict=True):
        state = x @ weights.T + state @ recurrent.T + bias
        np.testing.assert_allclose(made, state, rtol=1e-5)
        np.testing.assert_array_equal(kept, made)


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_attributes_are_stored_and_read_again(format: str) -> None:
    for form in (PLAIN[0], PLAIN[5], PLAIN[7], LSTMS[1]):
        graph = pair_graph(replace(form, asymmetric=True))
        stored = load(bytes(write_model(Model([graph]), by_name(format), origins=False)))
        assert stored.main.ops[0].attrs == graph.ops[0].attrs


# From ONE's own test of its kernel: two steps of two inputs, two cells, no biases.
_INPUT_WEIGHTS = (
    (0.80732799, -0.52187401), (0.116675, 0.33110499), (0.277033, 0.23767801),
    (0.12939601, 0.17175201), (-0.15584999, 0.81378102), (-0.26672, -0.230285),
)  # fmt: skip
_STATE_WEIGHTS = (
    (-0.19281299, -0.45822701), (-0.178845, -0.27543601), (0.70478702, 0.18743099),
    (-0.280711, -0.40605801), (-0.415622, 0.67527801), (0.427286, -0.241141),
)  # fmt: skip


def test_gru_gives_what_one_gives() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 1, 2))
    weights = b.constant("w", np.array(_INPUT_WEIGHTS, np.float32))
    states = b.constant("r", np.array(_STATE_WEIGHTS, np.float32))
    state = b.constant("h", np.zeros((1, 2), np.float32))
    graph = b.output(b.op("GRU", [x, weights, None, states, None, state], GruAttrs())).build()
    verify(graph)
    steps = np.array([[[0.98045033, 0.39546537]], [[0.5209594, 0.72873044]]], np.float32)
    (made,) = evaluate_graph(graph, [steps])
    np.testing.assert_allclose(made, [[[0.22777566, -0.1976251]]], rtol=1e-5)


def test_gru_is_stored_in_circle_files() -> None:
    graph = gru_graph((3, 2, 4, 5))
    read = load(bytes(write_model(Model([graph]), by_name("circle"), origins=False))).main
    assert read.ops[0].attrs == graph.ops[0].attrs
    (step,) = steps_for(graph, 1)
    np.testing.assert_array_equal(evaluate_graph(read, step)[0], evaluate_graph(graph, step)[0])


def _short_bias(graph: Graph) -> None:
    graph.ops[0].inputs[3] = graph.ops[0].inputs[7]


def _one_state(graph: Graph) -> None:
    position = 4 if graph.ops[0].kind == TWO_RNN else 35
    graph.ops[0].inputs[position + (4 if position == 4 else 2)] = graph.ops[0].inputs[position]


def _half_aux(graph: Graph) -> None:
    graph.ops[0].inputs[11 if graph.ops[0].kind == TWO_RNN else 46] = None


def _one_output(graph: Graph) -> None:
    graph.ops[0].outputs.pop()
    graph.outputs.pop()


@pytest.mark.parametrize(
    ("form", "spoil", "words"),
    [
        (Pair(TWO_RNN), _short_bias, "do not fit each other"),
        (Pair(TWO_RNN, (2, 3, 5, 4, 4)), _one_state, "variable tensors of their own"),
        (Pair(TWO_LSTM, (2, 3, 5, 4, 4)), _one_state, "variable tensors of their own"),
        (Pair(TWO_RNN, aux="weights"), _half_aux, "or none"),
        (Pair(TWO_LSTM, aux="weights"), _half_aux, "auxiliary input and its weights"),
        (Pair(TWO_LSTM), _one_output, "number of outputs"),
    ],
)
def test_a_broken_layer_is_refused(form: Pair, spoil: Callable[[Graph], None], words: str) -> None:
    graph = pair_graph(form)
    spoil(graph)
    with pytest.raises(CircletError, match=words):
        verify(graph)


def test_a_gru_that_is_to_give_all_states_is_refused() -> None:
    graph = gru_graph((3, 1, 4, 5))
    graph.ops[0].attrs = GruAttrs(return_sequences=True)
    with pytest.raises(CircletError, match="last state only"):
        verify(graph)
