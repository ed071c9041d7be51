"""Passes whose own tests look at other things are held to their promises here."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import load
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.circle_norm import RmsNormAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.onnx.record import OnnxAttrs
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


@pytest.mark.parametrize("scales", [1, 8])
def test_weights_that_are_stored_are_turned_where_they_are_stored(scales: int) -> None:
    b = builder()
    random = np.random.default_rng(3)
    stored = b.constant("w", random.integers(-127, 128, (8, 4, 1, 1)).astype(np.int8))
    shape = () if scales == 1 else (8, 1, 1, 1)
    steps = b.constant("s", random.uniform(0.01, 0.02, shape).astype(np.float32))
    zeros = b.constant("z", np.zeros(shape, np.int8))
    given = [stored, steps, zeros]
    code = DEQUANTIZE.partition(":")[2]
    attrs = OnnxAttrs((), 13)
    w = b.op("CUSTOM", given, attrs, custom_code=code, dtype=F32, shape=(8, 4, 1, 1), name="w_real")
    turned = b.op("TRANSPOSE", [w, b.constant("order", np.array([2, 3, 1, 0], np.int32))])
    flat = b.op("RESHAPE", [turned, b.constant("sizes", np.array([4, 8], np.int32))], name="flat")
    graph = b.output(b.op("ADD", [flat, b.input("x", F32, (4, 8))], name="y")).build()
    rewritten(graph, "fold-moves")
    assert [op.label for op in graph.ops] == [DEQUANTIZE, "ADD"]
    made = graph.ops[0].inputs
    assert [t.shape for t in made if t is not None][1] == ((1, 1) if scales == 1 else (1, 8))
    assert graph.ops[0].origin.name.startswith("w_real+")


def test_passes_that_find_nothing_say_so() -> None:
    b = builder()
    graph = b.output(b.op("TANH", [b.input("x", F32, (3,))], name="y")).build()
    assert not any(make(name).run(graph) for name in pass_names())
    assert kinds_of(graph) == ["TANH"]
