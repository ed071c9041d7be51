"""LSTM, GRU and RNN from .onnx files: half precision, open sizes, ONNX Runtime beside them."""

from __future__ import annotations

import numpy as np
import pytest

import circlet

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, HALF = 1, 10
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS, HIDDEN = 5, 6


def layer(
    kind: str, element: int = FLOAT, dtype: type = np.float32, gates: str | None = None
) -> bytes:
    """A bidirectional layer over [time, batch, INPUTS], both of which are open."""
    names = {"LSTM": (gates, "Tanh", "Tanh"), "GRU": (gates, "Tanh")}
    activations = {"activations": names[kind] * 2} if gates else {}
    random, rows = np.random.default_rng(len(kind)), GATES[kind] * HIDDEN
    shapes = {"w": (2, rows, INPUTS), "r": (2, rows, HIDDEN), "b": (2, 2 * rows)}
    constants = [
        numpy_helper.from_array((random.standard_normal(shape) * 0.4).astype(dtype), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(
        kind,
        ["x", "w", "r", "b"],
        ["y"],
        hidden_size=HIDDEN,
        direction="bidirectional",
        **activations,
    )
    x = helper.make_tensor_value_info("x", element, ["time", "batch", INPUTS])
    y = helper.make_tensor_value_info("y", element, ["time", 2, "batch", HIDDEN])
    graph = helper.make_graph([node], "main", [x], [y], initializer=constants)
    opsets = [helper.make_opsetid("", 14)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(made.SerializeToString())


def data(steps: int, batch: int) -> np.ndarray:
    return np.random.default_rng(steps).standard_normal((steps, batch, INPUTS)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "gates"),
    [*((kind, None) for kind in GATES), ("LSTM", "HardSigmoid"), ("GRU", "HardSigmoid")],
)
def test_a_layer_of_open_sizes_gives_what_onnx_runtime_gives(kind: str, gates: str | None) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the judge")
    written = layer(kind, gates=gates)
    peer, session = runtime.InferenceSession(written), circlet.Session(written, cache=False)
    assert [row["backend"] for row in session.placement] == ["cpu"]
    for steps, batch in ((4, 3), (1, 1), (7, 2)):
        x = data(steps, batch)
        (wanted,) = peer.run(None, {"x": x})
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_a_layer_of_half_precision_runs_widened(kind: str) -> None:
    session = circlet.Session(layer(kind, HALF, np.float16), cache=False)
    backends = {row["kind"]: row["backend"] for row in session.placement}
    assert backends[f"CUSTOM:onnx.{kind}"] == "cpu"
    x = data(3, 1)
    made = session.run({"x": x.astype(np.float16)})["y"]
    assert made.dtype == np.float16
    wanted = circlet.Session(layer(kind), backends=["reference"], cache=False).run({"x": x})["y"]
    np.testing.assert_allclose(made, wanted, rtol=0, atol=0.01)
