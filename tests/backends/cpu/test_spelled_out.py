"""What exporters spell out operator by operator is one kernel call at O2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.formats import load
from circlet.ops.evaluate import evaluate_graph
from circlet.passes import pipeline
from tests.passes.harness import kinds_of, source_names

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
_HEADS = [2, 3, 16, 8]


class Spelled:
    """Nodes of an ONNX graph over x [2, 3, 16, 8], as exporters write them."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def __call__(self, kind: str, *operands: str | float | np.ndarray, **attributes: object) -> str:
        names = [t if isinstance(t, str) else self.constant(np.asarray(t)) for t in operands]
        result = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, names, [result], name=result, **attributes))
        return result

    def constant(self, values: np.ndarray) -> str:
        values = values.astype(np.float32) if values.dtype == np.float64 else values
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(values, name))
        return name

    def file(self, result: str) -> bytes:
        info = onnx.helper.make_tensor_value_info
        inputs = [info("x", onnx.TensorProto.FLOAT, _HEADS)]
        inputs.append(info("keep", onnx.TensorProto.BOOL, [2, 1, 16, 16]))
        outputs = [info(result, onnx.TensorProto.FLOAT, None)]
        graph = onnx.helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        opset = onnx.helper.make_opsetid("", 17)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
        return bytes(model.SerializeToString())


def bert(s: Spelled) -> str:
    """Scores divided; a mask that is added."""
    scores = s("Div", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), np.sqrt(8.0))
    low = s("Mul", s("Cast", s("Not", "keep"), to=1), -10000.0)
    return s("MatMul", s("Softmax", s("Add", scores, low), axis=-1), "x")


def scaled_dot_product(s: Spelled) -> str:
    """PyTorch's: both operands take the root of the scale, and a choice makes the mask."""
    root = 8.0**-0.25
    keys = s("Mul", s("Transpose", "x", perm=[0, 1, 3, 2]), root)
    scores = s("MatMul", s("Mul", "x", root), keys)
    mask = s("Where", "keep", 0.0, -np.inf)
    return s("MatMul", s("Softmax", s("Add", scores, mask), axis=-1), "x")


def _turned_flat(s: Spelled, k: str) -> str:
    """Keys turned as stacks of one axis, as torch.onnx does for heads of any number."""
    flat = s("Transpose", s("Reshape", k, np.array([-1, 16, 8])), perm=[0, 2, 1])
    return s("Reshape", flat, np.array([2, 3, 8, 16]))


def exported(s: Spelled) -> str:
    """torch.onnx's of a mask of conditions: rows that are masked as a whole become 0."""
    root = 8.0**-0.25
    scores = s("MatMul", s("Mul", "x", root), s("Mul", _turned_flat(s, "x"), root))
    mask = s("Where", "keep", 0.0, -np.inf)
    weights = s("Softmax", s("Add", scores, mask), axis=-1)
    return s("MatMul", s("Where", s("IsNaN", weights), 0.0, weights), "x")


def exported_causal(s: Spelled) -> str:
    """torch.onnx's of a causal mask, which is computed of sizes."""
    ones = s("Trilu", s("Expand", 1.0, np.array([16, 16])), upper=0)
    mask = s("Where", s("Equal", ones, 0.0), float(np.finfo(np.float32).min), 0.0)
    root = 8.0**-0.25
    scores = s("MatMul", s("Mul", "x", root), s("Mul", _turned_flat(s, "x"), root))
    return s("MatMul", s("Softmax", s("Add", scores, mask), axis=-1), "x")


def exported_groups(s: Spelled) -> str:
    """torch.onnx's of queries that share keys: the one head is repeated."""
    head = s("Slice", "x", np.array([0]), np.array([1]), np.array([1]))
    wide = s("Expand", s("Unsqueeze", head, np.array([2])), np.array([2, 1, 3, 16, 8]))
    keys = s("Reshape", wide, np.array([2, 3, 16, 8]))
    root = 8.0**-0.25
    scores = s("MatMul", s("Mul", "x", root), s("Mul", _turned_flat(s, keys), root))
    return s("MatMul", s("Softmax", scores, axis=-1), keys)


def causal_and_padded(s: Spelled) -> str:
    """GPT-2's: a choice, and a mask of padding that is added after it."""
    scores = s("Div", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), np.sqrt(8.0))
    tri = np.tril(np.ones((1, 1, 16, 16), bool))
    chosen = s("Where", tri, scores, float(np.finfo(np.float32).min))
    padded = s("Where", "keep", 0.0, -1e4)
    return s("MatMul", s("Softmax", s("Add", chosen, padded), axis=-1), "x")


def biased(s: Spelled) -> str:
    """T5's and ALiBi's: a bias of positions and a mask, without a factor."""
    bias = np.random.default_rng(2).standard_normal((1, 3, 16, 16))
    scores = s("Add", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), bias)
    masked = s("Add", scores, s("Where", "keep", 0.0, -1e9))
    return s("MatMul", s("Softmax", masked, axis=-1), "x")


def windows(s: Spelled) -> str:
    """Swin's: a bias of positions, and a mask of windows, for which these have an axis."""
    rng = np.random.default_rng(2)
    scores = s("MatMul", s("Mul", "x", 0.3), s("Transpose", "x", perm=[0, 1, 3, 2]))
    biased = s("Add", scores, rng.standard_normal((1, 3, 16, 16)))
    apart = s("Reshape", biased, np.array([1, 2, 3, 16, 16]))
    masked = s("Add", apart, np.where(rng.random((1, 2, 1, 16, 16)) < 0.3, -100.0, 0.0))
    together = s("Reshape", masked, np.array([2, 3, 16, 16]))
    return s("MatMul", s("Softmax", together, axis=-1), "x")


def scaled_late(s: Spelled) -> str:
    """A bias that is scaled together with the product, as with relative positions."""
    bias = np.random.default_rng(2).standard_normal((3, 16, 16))
    scores = s("Add", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), bias)
    return s("MatMul", s("Softmax", s("Mul", scores, 8.0**-0.5), axis=-1), "x")


def causal(s: Spelled) -> str:
    """GPT's: a choice of the lowest number after the division."""
    scores = s("Div", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), np.sqrt(8.0))
    lowest = float(np.finfo(np.float32).min)
    return s("MatMul", s("Softmax", s("Where", "keep", scores, lowest), axis=-1), "x")


def by_powers(s: Spelled) -> str:
    """JAX's: a choice, and softmax spelled out."""
    scores = s("Mul", s("MatMul", "x", s("Transpose", "x", perm=[0, 1, 3, 2])), 8.0**-0.5)
    masked = s("Where", "keep", scores, -0.7 * float(np.finfo(np.float32).max))
    most = s("Max", s("ReduceMax", masked, axes=[-1], keepdims=1), -np.inf)
    powers = s("Exp", s("Sub", masked, most))
    total = s("ReduceSum", powers, np.array([-1]), keepdims=1)
    return s("MatMul", s("Div", powers, total), "x")


def silu(s: Spelled) -> str:
    return s("Mul", "x", s("Sigmoid", "x"))


def silu_by_powers(s: Spelled) -> str:
    return s("Div", "x", s("Add", s("Exp", s("Neg", "x")), 1.0))


def layer_norm(s: Spelled) -> str:
    """Of 128 features, which two dimensions of x make."""
    x = s("Reshape", "x", np.array([2, 3, 128]))
    centred = s("Sub", x, s("ReduceMean", x, axes=[-1], keepdims=1))
    variance = s("ReduceMean", s("Pow", centred, 2.0), axes=[-1], keepdims=1)
    unit = s("Div", centred, s("Sqrt", s("Add", variance, 1e-5)))
    rng = np.random.default_rng(1)
    return s("Add", s("Mul", unit, rng.uniform(1, 2, 128)), rng.uniform(1, 2, 128))


@pytest.mark.parametrize(
    ("spelled", "kernel"),
    [
        (bert, "FUSED_ATTENTION"),
        (scaled_dot_product, "FUSED_ATTENTION"),
        (exported, "FUSED_ATTENTION"),
        (exported_causal, "FUSED_ATTENTION"),
        (exported_groups, "FUSED_ATTENTION"),
        (causal, "FUSED_ATTENTION"),
        (causal_and_padded, "FUSED_ATTENTION"),
        (biased, "FUSED_ATTENTION"),
        (windows, "FUSED_ATTENTION"),
        (scaled_late, "FUSED_ATTENTION"),
        (by_powers, "FUSED_ATTENTION"),
        (silu, "FUSED_ELEMENTWISE"),
        (silu_by_powers, "FUSED_ELEMENTWISE"),
        (layer_norm, "FUSED_ROWS"),
    ],
)
def test_it_is_one_kernel_call(spelled: Callable[[Spelled], str], kernel: str) -> None:
    s = Spelled()
    graph = load(s.file(spelled(s))).main
    inputs = [_values(tensor.name) for tensor in graph.inputs]
    (wanted,) = evaluate_graph(graph, inputs)
    pipeline("O2", check=True).run(graph)
    native = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(native)
    kinds = kinds_of(native)
    assert kinds[-1] == kernel
    assert "SOFTMAX" not in kinds and "MEAN" not in kinds and "LOGISTIC" not in kinds
    (got,) = evaluate_graph(native, inputs)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def image_norm(s: Spelled) -> str:
    """A node that normalises, between layers over images; what it clamps is RELU's."""
    rng = np.random.default_rng(3)
    x = s("Conv", "x", rng.standard_normal((5, 3, 1, 1)))
    x = s("InstanceNormalization", x, rng.uniform(1, 2, 5), rng.uniform(-1, 1, 5))
    return s("Conv", s("Relu", x), rng.standard_normal((4, 5, 1, 1)))


def spelled_image_norm(s: Spelled) -> str:
    """The same by squares of differences, as exporters of older opsets write it."""
    rng = np.random.default_rng(3)
    x = s("Conv", "x", rng.standard_normal((5, 3, 1, 1)))
    centred = s("Sub", x, s("ReduceMean", x, axes=[2, 3], keepdims=1))
    variance = s("ReduceMean", s("Mul", centred, centred), axes=[2, 3], keepdims=1)
    unit = s("Div", centred, s("Sqrt", s("Add", variance, 1e-5)))
    scaled = s("Mul", unit, rng.uniform(1, 2, (5, 1, 1)))
    moved = s("Add", scaled, rng.uniform(-1, 1, (5, 1, 1)))
    return s("Conv", s("Relu", moved), rng.standard_normal((4, 5, 1, 1)))


@pytest.mark.parametrize("spelled", [image_norm, spelled_image_norm])
def test_a_normalisation_between_layers_is_one_operator(spelled: Callable[[Spelled], str]) -> None:
    s = Spelled()
    graph = load(s.file(spelled(s))).main
    inputs, sources = [_values(tensor.name) for tensor in graph.inputs], source_names(graph)
    (wanted,) = evaluate_graph(graph, inputs)
    pipeline("O2", check=True).run(graph)
    native_pipeline("O2", check=True).run(graph)
    kinds = [kind for kind in kinds_of(graph) if kind != "TRANSPOSE"]
    assert kinds == ["CONV_2D", "INSTANCE_NORM", "CONV_2D"]
    assert source_names(graph) == sources
    (got,) = evaluate_graph(graph, inputs)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def _values(name: str) -> np.ndarray:
    """Random floats, or a condition that keeps the first of every row."""
    random = np.random.default_rng(5)
    if name == "x":
        return random.standard_normal(_HEADS).astype(np.float32)
    keep = random.random((2, 1, 16, 16)) < 0.6
    keep[..., 0] = True
    return keep
