"""Recurrent layers whose weights and states a file keeps as float16."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import dumps
from circlet.ir import Graph, Model, Op
from circlet.ir.builder import constant
from circlet.ops import NoAttrs
from circlet.runtime.session import Session
from tests.recurrent import Lstm, lstm_graph, steps_for

FORM = Lstm((1, 4, 5, 6, 6), time_major=True)


def halved(graph: Graph) -> bytes:
    """The file of an LSTM all of whose operands but the input are converted from float16."""
    (lstm,) = graph.ops
    for tensor in (t for t in lstm.inputs[1:] if t is not None):
        start = np.full(tensor.static_shape, 0.25) if tensor.data is None else tensor.data
        half = constant(f"{tensor.name} half", np.asarray(start, np.float16))
        tensor.data = None
        graph.tensors.append(half)
        graph.ops.insert(0, Op("DEQUANTIZE", [half], [tensor], NoAttrs(), lstm.origin))
    return bytes(dumps(Model([graph]), "tflite"))


def test_an_lstm_of_float16_operands_goes_on_from_run_to_run_as_in_litert() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    graph = lstm_graph(FORM)
    steps = steps_for(graph, 3)
    file = halved(graph)
    peer = litert.Interpreter(model_content=file)
    peer.allocate_tensors()
    session = Session(file, threads=1)
    for (step,) in steps:
        peer.set_tensor(peer.get_input_details()[0]["index"], step)
        peer.invoke()
        wanted = peer.get_tensor(peer.get_output_details()[0]["index"])
        np.testing.assert_allclose(session.run([step])["y"], wanted, rtol=0, atol=1e-5)


def test_a_reset_brings_the_converted_start_back() -> None:
    graph = lstm_graph(FORM)
    ((step,),) = steps_for(graph, 1)
    session = Session(halved(graph), threads=1)
    first = session.run([step])["y"]
    assert not np.array_equal(session.run([step])["y"], first)
    session.reset()
    np.testing.assert_array_equal(session.run([step])["y"], first)


def test_float16_weights_serve_other_sizes_of_the_input() -> None:
    graph = lstm_graph(FORM)
    graph.inputs[0].shape = (None, 1, 5)
    graph.outputs[0].shape = (None, 1, 6)
    session = Session(halved(graph), threads=1)
    assert (
        session.resized({"x": (7, 1, 5)}).run([np.ones((7, 1, 5), np.float32)])["y"].shape[0] == 7
    )
