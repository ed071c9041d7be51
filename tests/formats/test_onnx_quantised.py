"""Quantised ONNX operators run natively on integers, within a step of ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.runtime.session import Session

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

Node = tuple[str, Sequence[str], str, dict[str, Any]]
_RNG = np.random.default_rng(5)
_TYPES = {"f": TensorProto.FLOAT, "u": TensorProto.UINT8, "i": TensorProto.INT8}


def model(
    nodes: Sequence[Node],
    constants: dict[str, np.ndarray],
    x: tuple[str, Sequence[int]],
    y: str,
    domain: str = "",
) -> bytes:
    """A model from x to y with constants; `x` has a letter of a type and sizes."""
    made = [
        helper.make_node(kind, list(inputs), [output], domain=domain, **attrs)
        for kind, inputs, output, attrs in nodes
    ]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", _TYPES[x[0]], list(x[1]))],
        [helper.make_tensor_value_info("y", _TYPES[y], None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString())


def both(data: bytes, x: np.ndarray, tmp_path: Path) -> tuple[np.ndarray, np.ndarray, Counter[str]]:
    """Ours, ONNX Runtime's, and the kinds that ran natively."""
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    session = Session(path)
    assert all(row["backend"] == "cpu" for row in session.placement), session.placement
    (ours,) = session.run([x]).values()
    peer = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (theirs,) = peer.run(None, {"x": x})
    return ours, theirs, Counter(str(row["kind"]) for row in session.placement)


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Equal types and sizes, at most one step apart."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max() <= 1
    assert np.ptp(theirs.astype(np.int64)) > 20


def scalars(**values: tuple[float, Any]) -> dict[str, np.ndarray]:
    """Scales and zero points by the letter of the tensor that they belong to."""
    made: dict[str, np.ndarray] = {}
    for name, (scale, zero) in values.items():
        made |= {f"{name}s": np.array(scale, np.float32), f"{name}z": np.asarray(zero)}
    return made


def conv_constants(weights: str, channels: int, group: int = 1) -> dict[str, np.ndarray]:
    count, depth = 16, channels // group
    low, high, dtype = (0, 255, np.uint8) if weights == "u" else (-127, 128, np.int8)
    zero = np.uint8(120) if weights == "u" else np.zeros(count, np.int8)
    scale = 0.02 if weights == "u" else _RNG.uniform(0.005, 0.03, count)
    values = _RNG.integers(low, high, (count, depth, 3, 3)).astype(dtype)
    return {
        "w": values,
        "b": _RNG.integers(-2000, 2000, count).astype(np.int32),
        "ws": np.asarray(scale, np.float32),
        "wz": np.asarray(zero),
    }


@pytest.mark.parametrize(("data", "weights"), [("u", "i"), ("i", "i"), ("u", "u")])
@pytest.mark.parametrize("group", [1, 16])
def test_qlinear_conv_is_an_integer_convolution(
    data: str, weights: str, group: int, tmp_path: Path
) -> None:
    dtype = np.uint8 if data == "u" else np.int8
    constants = conv_constants(weights, 16, group) | scalars(
        x=(0.05, dtype(100)), y=(0.9 if group == 1 else 0.2, dtype(90))
    )
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node: Node = ("QLinearConv", names, "y", {"pads": [1, 1, 1, 1], "group": group})
    x = _RNG.integers(0, 120, (1, 16, 9, 11)).astype(dtype)
    ours, theirs, kinds = both(model([node], constants, (data, x.shape), data), x, tmp_path)
    close(ours, theirs)
    assert kinds["DEPTHWISE_CONV_2D" if group > 1 else "CONV_2D"] == 1
    assert kinds["CUSTOM:onnx.DequantizeLinear"] == 0


def test_channels_of_a_bias_alone_are_integers_as_well(tmp_path: Path) -> None:
    """Filters that training left near zero have tiny scales, so that their biases fill 32 bits."""
    constants = conv_constants("i", 16) | scalars(x=(0.05, np.int8(3)), y=(0.9, np.int8(9)))
    constants["ws"][::3] = 5e-9
    constants["b"][::3] = _RNG.integers(-(2**31) + 2**24, 2**31 - 2**24, 6)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node: Node = ("QLinearConv", names, "y", {"pads": [1, 1, 1, 1]})
    x = _RNG.integers(-128, 128, (1, 16, 9, 11)).astype(np.int8)
    ours, theirs, kinds = both(model([node], constants, ("i", x.shape), "i"), x, tmp_path)
    close(ours, theirs)
    assert kinds["CONV_2D"] == 1 and kinds["CUSTOM:onnx.DequantizeLinear"] == 0


def test_products_of_two_computed_matrices_are_of_integers(tmp_path: Path) -> None:
    """As attention has them: rows by rows, of a type that has to change too."""
    constants = scalars(x=(0.05, np.uint8(140)), y=(0.9, np.uint8(90)))
    nodes: list[Node] = [
        ("DequantizeLinear", ["x", "xs", "xz"], "r", {}),
        ("Transpose", ["r"], "t", {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["r", "t"], "p", {}),
        ("QuantizeLinear", ["p", "ys", "yz"], "y", {}),
    ]
    x = _RNG.integers(0, 256, (2, 3, 17, 40)).astype(np.uint8)
    ours, theirs, kinds = both(model(nodes, constants, ("u", x.shape), "u"), x, tmp_path)
    close(ours, theirs)
    assert kinds["BATCH_MATMUL"] == 1
    assert kinds["CUSTOM:onnx.DequantizeLinear"] == 0


def test_concatenations_join_bytes_of_one_scale(tmp_path: Path) -> None:
    """What is quantised behind them becomes that ahead of them."""
    constants = scalars(
        x=(0.05, np.uint8(140)),
        y=(0.06, np.uint8(90)),
        a=(0.03, np.uint8(0)),
        b=(0.004, np.uint8(9)),
    )
    nodes: list[Node] = [
        ("DequantizeLinear", ["x", "xs", "xz"], "r", {}),
        ("Relu", ["r"], "p", {}),
        ("QuantizeLinear", ["p", "as", "az"], "pq", {}),
        ("DequantizeLinear", ["pq", "as", "az"], "pr", {}),
        ("Sigmoid", ["r"], "q", {}),
        ("QuantizeLinear", ["q", "bs", "bz"], "qq", {}),
        ("DequantizeLinear", ["qq", "bs", "bz"], "qr", {}),
        ("Concat", ["pr", "qr"], "c", {"axis": 1}),
        ("QuantizeLinear", ["c", "ys", "yz"], "y", {}),
    ]
    x = _RNG.integers(0, 256, (1, 8, 9, 10)).astype(np.uint8)
    ours, theirs, kinds = both(model(nodes, constants, ("u", x.shape), "u"), x, tmp_path)
    close(ours, theirs)
    assert kinds["CONCATENATION"] == 1
    assert kinds["CUSTOM:onnx.QuantizeLinear"] == 4  # two of what is joined
    assert kinds["CUSTOM:onnx.DequantizeLinear"] == 3  # none behind it


def test_convolutions_along_time_are_integer_ones(tmp_path: Path) -> None:
    constants = scalars(x=(0.05, np.uint8(100)), y=(0.4, np.uint8(90)), w=(0.02, np.int8(0)))
    for name in ("u", "v"):
        constants[name] = _RNG.integers(-127, 128, (16, 16, 3)).astype(np.int8)
    nodes: list[Node] = [
        ("QLinearConv", ["x", "xs", "xz", "u", "ws", "wz", "ys", "yz"], "m", {"pads": [1, 1]}),
        ("QLinearConv", ["m", "ys", "yz", "v", "ws", "wz", "ys", "yz"], "y", {"pads": [1, 1]}),
    ]
    x = _RNG.integers(0, 255, (1, 16, 40)).astype(np.uint8)
    ours, theirs, kinds = both(model(nodes, constants, ("u", x.shape), "u"), x, tmp_path)
    close(ours, theirs)
    assert kinds["CONV_2D"] == 2
    assert kinds["CUSTOM:onnx.DequantizeLinear"] == kinds["CUSTOM:onnx.QuantizeLinear"] == 0


def test_qdq_layers_meet_without_floats_between(tmp_path: Path) -> None:
    constants = conv_constants("i", 16) | scalars(
        x=(0.05, np.uint8(100)), y=(0.9, np.uint8(30)), z=(0.9, np.uint8(30))
    )
    constants["bs"] = (np.float32(0.05) * constants["ws"]).astype(np.float32)
    constants["bz"] = np.zeros(16, np.int32)
    constants["s2"] = np.array([0, -1], np.int64)
    nodes: list[Node] = [
        ("QuantizeLinear", ["x", "xs", "xz"], "xq", {}),
        ("DequantizeLinear", ["xq", "xs", "xz"], "xd", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "wd", {"axis": 0}),
        ("DequantizeLinear", ["b", "bs", "bz"], "bd", {"axis": 0}),
        ("Conv", ["xd", "wd", "bd"], "c", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], "r", {}),
        ("QuantizeLinear", ["r", "ys", "yz"], "rq", {}),
        ("DequantizeLinear", ["rq", "ys", "yz"], "rd", {}),
        ("MaxPool", ["rd"], "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QuantizeLinear", ["p", "ys", "yz"], "pq", {}),
        ("DequantizeLinear", ["pq", "ys", "yz"], "pd", {}),
        ("Reshape", ["pd", "s2"], "f", {}),
        ("QuantizeLinear", ["f", "zs", "zz"], "y", {}),
    ]
    x = _RNG.normal(size=(1, 16, 8, 8)).astype(np.float32)
    ours, theirs, kinds = both(model(nodes, constants, ("f", x.shape), "u"), x, tmp_path)
    close(ours, theirs)
    assert kinds["CONV_2D"] == kinds["MAX_POOL_2D"] == kinds["CUSTOM:onnx.QuantizeLinear"] == 1
    assert kinds["CUSTOM:onnx.DequantizeLinear"] == 0


@pytest.mark.parametrize("per_column", [False, True])
def test_qlinear_mat_mul_is_a_fully_connected_layer(per_column: bool, tmp_path: Path) -> None:
    weights = _RNG.integers(-127, 128, (40, 24)).astype(np.int8)
    scale = _RNG.uniform(0.01, 0.02, 24).astype(np.float32) if per_column else np.float32(0.015)
    zero = np.zeros(24, np.int8) if per_column else np.int8(0)
    constants = scalars(x=(0.04, np.uint8(110)), y=(0.3, np.uint8(128))) | {
        "w": weights,
        "ws": np.asarray(scale),
        "wz": np.asarray(zero),
    }
    node: Node = ("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], "y", {})
    x = _RNG.integers(0, 256, (5, 40)).astype(np.uint8)
    ours, theirs, kinds = both(model([node], constants, ("u", x.shape), "u"), x, tmp_path)
    close(ours, theirs)
    assert kinds["FULLY_CONNECTED"] == 1


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_of_two(kind: str, tmp_path: Path) -> None:
    constants = scalars(x=(0.04, np.uint8(110)), w=(0.02, np.uint8(10)), y=(0.06, np.uint8(100)))
    constants["w"] = _RNG.integers(0, 256, (3, 7)).astype(np.uint8)
    node: Node = (kind, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], "y", {})
    x = _RNG.integers(0, 256, (2, 3, 7)).astype(np.uint8)
    data = model([node], constants, ("u", x.shape), "u", "com.microsoft")
    close(*both(data, x, tmp_path)[:2])


def test_dynamic_quantisation_and_integer_products(tmp_path: Path) -> None:
    weights = _RNG.integers(-127, 128, (300, 24)).astype(np.int8)
    dynamic = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    product = helper.make_node("MatMulInteger", ["q", "w", "z"], ["y"])
    graph = helper.make_graph(
        [dynamic, product],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 300])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [6, 24])],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = _RNG.normal(size=(6, 300)).astype(np.float32)
    ours, theirs, _ = both(bytes(made.SerializeToString()), x, tmp_path)
    np.testing.assert_array_equal(ours, theirs)


def test_stored_images_are_padded_with_what_is_stored(tmp_path: Path) -> None:
    """As ONNX Runtime's quantiser leaves Pad between layers: over bytes, filled with the zero."""
    weights = _RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    constants: dict[str, np.ndarray] = {
        "s": np.array(0.02, np.float32),
        "z": np.array(120, np.uint8),
        "w": weights,
        "ws": np.array(0.01, np.float32),
        "wz": np.array(0, np.int8),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        "sizes": np.array([1, 4, 8, 8], np.int64),
    }
    nodes: list[Node] = [
        ("QLinearConv", ["x", "s", "z", "w", "ws", "wz", "s", "z"], "a", {}),
        ("Pad", ["a", "pads", "z"], "p", {}),
        ("DequantizeLinear", ["p", "s", "z"], "y", {}),
    ]
    data = model(nodes, constants, ("u", (1, 3, 8, 8)), "f")
    x = _RNG.integers(0, 256, (1, 3, 8, 8)).astype(np.uint8)
    ours, theirs, _ = both(data, x, tmp_path)
    assert np.abs(ours - theirs).max() < 0.021
    assert (ours[..., 0] == 0).all()
