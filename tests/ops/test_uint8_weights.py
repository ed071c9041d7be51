"""Float activations over uint8 weights, as converters wrote them that had no int8 yet."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER
from tests.evaluate import evaluate
from tests.ops.one_op import make_op, peer_result, tensor

ATTRS = {
    "CONV_2D": Conv2DAttrs(SAME_UPPER, activation="RELU6"),
    "DEPTHWISE_CONV_2D": DepthwiseConv2DAttrs(SAME_UPPER, (2, 2), depth_multiplier=1),
    "FULLY_CONNECTED": FullyConnectedAttrs(),
}
WEIGHTS = {
    "CONV_2D": (7, 3, 3, 8),
    "DEPTHWISE_CONV_2D": (1, 3, 3, 8),
    "FULLY_CONNECTED": (7, 8),
}


def stored(kind: str) -> np.ndarray:
    """Bytes that count as -127 to 127: LiteRT's vector code has no product with -128."""
    values = np.random.default_rng(1).integers(-127, 128, WEIGHTS[kind]).astype(np.int8)
    return values.view(np.uint8)


def quantisation(kind: str, zero: int, per_channel: bool) -> Quantization:
    """Scales of the weights."""
    if not per_channel:
        return Quantization.per_tensor(0.02, zero)
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    count = WEIGHTS[kind][axis]
    scales = np.linspace(0.01, 0.03, count).astype(np.float32)
    return Quantization(scales, np.full(count, zero, np.int64), axis)


def network(kind: str, x: np.ndarray, weights: np.ndarray, quant: Quantization) -> Graph:
    """One op with a bias."""
    b = builder()
    units = WEIGHTS[kind][3 if kind == "DEPTHWISE_CONV_2D" else 0]
    bias = b.constant("bias", np.linspace(-1, 1, units).astype(np.float32))
    held = b.constant("weights", weights, quant)
    data = b.input("x", DType.FLOAT32, x.shape)
    return b.output(b.op(kind, [data, held, bias], ATTRS[kind], name="y")).build()


def image(kind: str) -> np.ndarray:
    """Activations."""
    shape = (5, 8) if kind == "FULLY_CONNECTED" else (2, 6, 5, 8)
    return np.random.default_rng(0).normal(0, 2, shape).astype(np.float32)


@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_bytes_count_as_int8_as_in_litert(kind: str, zero: int) -> None:
    x, weights, quant = image(kind), stored(kind), quantisation(kind, zero, False)
    bias = tensor("b", np.linspace(-1, 1, 7).astype(np.float32), constant=True)
    held = tensor("w", weights, quant, constant=True)
    op = make_op(kind, [tensor("x", x), held, bias], (DType.FLOAT32, None), ATTRS[kind])
    (own,) = evaluate(network(kind, x, weights, quant), [x])
    np.testing.assert_allclose(own, peer_result(op, [x]), atol=1e-5)


def test_scales_of_channels_count_as_beside_int8() -> None:
    """LiteRT reads the first of them only."""
    kind = "CONV_2D"
    x, weights, quant = image(kind), stored(kind), quantisation(kind, 0, True)
    (unsigned,) = evaluate(network(kind, x, weights, quant), [x])
    (signed,) = evaluate(network(kind, x, weights.view(np.int8), quant), [x])
    np.testing.assert_array_equal(unsigned, signed)


@pytest.mark.parametrize("zero", [0, 100])
def test_depthwise_products_are_those_of_the_real_weights(zero: int) -> None:
    x, weights = np.ones((1, 1, 1, 8), np.float32), stored("DEPTHWISE_CONV_2D")
    graph = network("DEPTHWISE_CONV_2D", x, weights, Quantization.per_tensor(0.5, zero))
    (y,) = evaluate(graph, [x])  # the window's middle meets the one pixel
    middle = weights[0, 1, 1]
    real = 0.5 * (middle.astype(int) - zero if zero else middle.view(np.int8))
    np.testing.assert_allclose(y.reshape(-1), real + np.linspace(-1, 1, 8), atol=1e-5)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", ATTRS)
def test_they_run_natively(kind: str, per_channel: bool) -> None:
    x, zero = image(kind), 100
    if kind == "FULLY_CONNECTED":
        per_channel = False
    graph = network(kind, x, stored(kind), quantisation(kind, zero, per_channel))
    b = builder()
    b.graph = graph
    session = Session(dumps(b.model(), "tflite"), backends=("cpu",), cache=False)
    (got,) = session.run([x]).values()
    (wanted,) = evaluate(graph, [x])
    np.testing.assert_allclose(got, wanted, atol=1e-5 * max(1, np.abs(wanted).max()))
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_groups_of_channels_run_natively() -> None:
    x, rng = image("CONV_2D"), np.random.default_rng(3)
    weights = rng.integers(1, 255, (6, 3, 3, 4)).astype(np.uint8)
    b = builder()
    held = b.constant("weights", weights, Quantization.per_tensor(0.02, 128))
    data = b.input("x", DType.FLOAT32, x.shape)
    y = b.op("CONV_2D", [data, held], Conv2DAttrs(SAME_UPPER), name="y")
    graph = b.output(y).build()
    session = Session(dumps(b.model(), "tflite"), backends=("cpu",), cache=False)
    (got,) = session.run([x]).values()
    (wanted,) = evaluate(graph, [x])
    np.testing.assert_allclose(got, wanted, atol=1e-5 * max(1, np.abs(wanted).max()))
    assert {row["backend"] for row in session.placement} == {"cpu"}
