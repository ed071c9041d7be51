"""LSTM and SVDF beside LiteRT's reference kernels over several runs, and their rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats.schema import by_name
from circlet.formats.write_model import write_model
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops import gemmlowp16
from circlet.ops.verify import verify
from tests.recurrent import Lstm, lstm_graph, run_records, steps_for, svdf_graph

FORMS = (
    Lstm((2, 3, 7, 20, 20)),
    Lstm((2, 3, 7, 20, 20), time_major=True),
    Lstm((2, 3, 7, 12, 5), clips=(0.4, 0.3)),
    Lstm((2, 3, 6, 9, 9), has_input=False),
    Lstm((2, 3, 6, 9, 9), look=True),
    Lstm((2, 3, 6, 16, 16), norm=True),
    Lstm((2, 1, 6, 9, 4), norm=True, sequence=False),
    Lstm((2, 1, 6, 9, 9), look=True, norm=True, sequence=False),
    Lstm((1, 3, 6, 9, 9), has_input=False, look=True, norm=True),
)
STORED = (
    *FORMS,
    *(Lstm(cell_exponent=exponent) for exponent in (-15, -13, -12)),
)


def _peer_rows(graph: Graph, steps: list[list[np.ndarray]]) -> list[np.ndarray]:
    """LiteRT's output of every run, its variable tensors kept."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    interpreter = litert.Interpreter(
        model_content=bytes(write_model(Model([graph]), by_name("tflite"), origins=False)),
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    rows = []
    for (step,) in steps:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], step)
        interpreter.invoke()
        rows.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return rows


def _agree(graph: Graph, bar: float = 1e-6) -> None:
    verify(graph)
    steps = steps_for(graph, 3)
    for own, wanted in zip(run_records(graph, steps), _peer_rows(graph, steps), strict=True):
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(own[0], wanted)
            continue
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(own[0] / scale, wanted / scale, rtol=0, atol=bar)


@pytest.mark.parametrize("form", (*FORMS, Lstm(activation="RELU6")), ids=lambda form: form.label)
def test_float_lstm_gives_what_litert_gives(form: Lstm) -> None:
    _agree(lstm_graph(form))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("weights", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.label)
def test_hybrid_lstm_gives_what_litert_gives(form: Lstm, weights: DType, asymmetric: bool) -> None:
    _agree(lstm_graph(replace(form, weights=weights, asymmetric=asymmetric)), 1e-5)


@pytest.mark.parametrize("form", STORED, ids=lambda form: f"{form.label}{form.cell_exponent}")
def test_stored_lstm_gives_what_litert_gives(form: Lstm) -> None:
    _agree(lstm_graph(replace(form, stored=True)))


def test_a_stored_output_keeps_the_steps_of_the_state_whatever_its_scale() -> None:
    graph = lstm_graph(replace(FORMS[0], stored=True))
    graph.outputs[0].quant = Quantization.per_tensor(0.0059, 21)
    _agree(graph)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT16])
def test_svdf_gives_what_litert_gives(dtype: DType) -> None:
    for sizes in ((1, 16, 8, 1, 8), (2, 5, 3, 4, 10)):
        _agree(svdf_graph(sizes, dtype))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("weights", [DType.INT8, DType.UINT8])
def test_hybrid_svdf_gives_what_litert_gives(weights: DType, asymmetric: bool) -> None:
    for sizes in ((1, 16, 8, 1, 8), (2, 5, 3, 4, 10)):
        _agree(svdf_graph(sizes, DType.FLOAT32, weights=weights, asymmetric=asymmetric), 1e-5)


def test_hybrid_svdf_quantises_its_input_by_the_largest_element() -> None:
    graph = svdf_graph((1, 2, 1, 1, 2), DType.FLOAT32, bias=False, weights=DType.INT8)
    features, time = (t for t in graph.tensors if t.is_constant)
    features.data, time.data = np.array([[10, -20]], np.int8), np.array([[50, 100]], np.int8)
    rows = run_records(graph, [[np.array([[127.0, 31.4]], np.float32)]] * 2)
    newest = (127 * 10 - 31 * 20) * 0.01
    assert rows[0][0].item() == pytest.approx(newest)
    assert rows[1][0].item() == pytest.approx(newest * 1.5)


def test_svdf_of_bytes_is_the_sum_over_its_past() -> None:
    graph = svdf_graph((1, 3, 2, 1, 2), DType.INT8, bias=False)
    features, time = (np.asarray(t.data, np.int64) for t in graph.tensors[1:3])
    steps = steps_for(graph, 2)
    past = np.full((2, 2), 9)
    for (step,), row in zip(steps, run_records(graph, steps), strict=True):
        made = np.rint((step.astype(np.int64) + 5) @ features.T * (0.1 * 0.01 / 0.3)) + 9
        past = np.column_stack([past[:, 1], np.clip(made, -128, 127).ravel()])
        total = ((past - 9) * time).sum(axis=1) * (0.3 * 0.01 / 0.05)
        assert np.abs(row[0].ravel() - np.clip(np.rint(total) - 128, -128, 127)).max() <= 1
        np.testing.assert_array_equal(row[1].reshape(2, 2), past)


def test_fixed_point_functions_are_close_to_the_real_ones() -> None:
    raw = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    logistic = gemmlowp16.logistic(raw) / 32768
    assert np.abs(logistic - 1 / (1 + np.exp(raw / -4096.0))).max() < 2e-4
    for bits in range(5):
        real = np.tanh(raw / 2.0 ** (15 - bits))
        assert np.abs(gemmlowp16.tanh(raw, bits) / 32768 - real).max() < 4e-4


def _constant_state(graph: Graph) -> None:
    state = graph.ops[0].inputs[18]
    assert state is not None
    state.is_variable = False
    graph.inputs.append(state)


def _given_state(graph: Graph) -> None:
    state = graph.ops[0].inputs[18]
    assert state is not None
    graph.inputs.append(state)


def _half_peephole(graph: Graph) -> None:
    graph.ops[0].inputs[10] = None


def _wrong_scale(graph: Graph) -> None:
    cell = graph.ops[0].inputs[19]
    assert cell is not None
    cell.quant = Quantization.per_tensor(0.0003)


def _no_hidden(graph: Graph) -> None:
    graph.ops[0].intermediates.clear()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_constant_state, "variable tensors"),
        (_given_state, "updates a tensor that the caller gives"),
        (_half_peephole, "whole or not at all"),
        (_wrong_scale, r"2\*\*-15"),
        (_no_hidden, "hidden intermediate"),
    ],
)
def test_a_broken_lstm_is_refused(spoil: Callable[[Graph], None], words: str) -> None:
    graph = lstm_graph(Lstm((1, 2, 3, 4, 4), stored=True, look=True))
    spoil(graph)
    with pytest.raises(CircletError, match=words):
        verify(graph)
