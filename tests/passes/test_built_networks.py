"""Passes whose own tests look at other things are held to their promises here."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.circle_norm import RmsNormAttrs
from circlet.passes import make, pass_names
from tests.passes.harness import kinds_of, rewritten
from tests.passes.test_fuse_list_update import ROWS, updating

F32 = DType.FLOAT32


def test_an_operator_of_few_files_is_written_out() -> None:
    b = builder()
    x, gamma = b.input("x", F32, (2, 5, 8)), b.constant("gamma", np.linspace(0.5, 2, 8, dtype="f"))
    graph = b.output(b.op("RMS_NORM", [x, gamma], RmsNormAttrs(1e-5), name="norm")).build()
    kinds = rewritten(graph, "decompose", tolerance=1e-6)
    assert "RMS_NORM" not in kinds and len(kinds) > 3


def test_many_terms_become_sums_of_few() -> None:
    b = builder()
    terms = [b.input(f"x{index}", F32, (4,)) for index in range(20)]
    graph = b.output(b.op("ADD_N", terms, name="total")).build()
    assert rewritten(graph, "split-sums") == ["ADD_N"] * 3


def test_one_element_of_a_list_is_written() -> None:
    rows = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 1, 3)
    inputs = [rows, np.full((1, 1, 3), -1, np.float32), np.array(2, np.int32)]
    graph = updating()
    dead = frozenset({"starts head", "starts", "after"})
    kinds = rewritten(graph, "fuse-list-update", "remove-dead-ops", inputs=inputs, lost=dead)
    assert kinds[-1] == "DYNAMIC_UPDATE_SLICE"


def quantised_convolution() -> Graph:
    """An ONNX convolution between real and stored numbers, images in NCHW."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from tests.formats.test_onnx_quantised import model

    random = np.random.default_rng(3)
    constants: dict[str, np.ndarray] = {
        "s": np.array(0.05, np.float32),
        "z": np.array(3, np.uint8),
        "w": random.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8),
        "ws": np.array(0.01, np.float32),
        "wz": np.array(0, np.int8),
        "ys": np.array(0.2, np.float32),
        "yz": np.array(100, np.uint8),
    }
    nodes = [
        ("DequantizeLinear", ("x", "s", "z"), "real", {}),
        ("DequantizeLinear", ("w", "ws", "wz"), "weights", {}),
        ("Conv", ("real", "weights"), "sums", {"kernel_shape": [3, 3]}),
        ("QuantizeLinear", ("sums", "ys", "yz"), "y", {}),
    ]
    return load(model(nodes, constants, ("u", (1, 4, 8, 8)), "u")).main


def test_stored_numbers_are_multiplied_as_such() -> None:
    graph = quantised_convolution()
    kinds = rewritten(graph, "fuse-qdq", tolerance=0.01)  # a step of 255
    assert "CONV_2D" in kinds
    convolution = next(op for op in graph.ops if op.kind == "CONV_2D")
    assert convolution.outputs[0].dtype is DType.INT8
    assert convolution.origin.name == "real+weights+sums+y"


def test_passes_that_find_nothing_say_so() -> None:
    b = builder()
    graph = b.output(b.op("TANH", [b.input("x", F32, (3,))], name="y")).build()
    assert not any(make(name).run(graph) for name in pass_names())
    assert kinds_of(graph) == ["TANH"]
