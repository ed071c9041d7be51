"""Networks of open sizes that do not work at size 1 are opened at sizes at which they do."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.errors import GraphError

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper = onnx.helper


def network(*nodes: object, width: object = "width", **constants: np.ndarray) -> bytes:
    """A network over [1, 1, width]; the width is open unless one is stated."""
    stored = [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()]
    ends = [helper.make_tensor_value_info("x", 1, ["batch", 1, width])]
    graph = helper.make_graph(nodes, "g", ends, [onnx.ValueInfoProto(name="y")], stored)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


TAPS = np.ones((1, 1, 5), np.float32)


def test_a_network_that_needs_longer_signals_is_opened_and_run() -> None:
    data = network(helper.make_node("Conv", ["x", "w"], ["y"]), w=TAPS)
    session = circlet.Session(data, backends=["reference"], cache=False)
    made = session.run([np.arange(7, dtype=np.float32).reshape(1, 1, 7)])
    np.testing.assert_array_equal(made["y"], [[[10, 15, 20]]])


def test_what_no_size_helps_is_refused_for_size_one() -> None:
    fixed = np.zeros((1, 1, 7), np.float32)
    data = network(helper.make_node("Concat", ["x", "fixed"], ["y"], axis=1), fixed=fixed)
    with pytest.raises(GraphError, match="must be equal"):
        circlet.Session(data, backends=["reference"], cache=False)
    session = circlet.Session(data, shapes={"x": (1, 1, 7)}, backends=["reference"], cache=False)
    assert session.run([fixed + 1])["y"].tolist() == [[[1] * 7, [0] * 7]]
