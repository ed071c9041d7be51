"""int16 activations and int8 weights beside LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.ops.one_op import assert_agrees, make_op, stored_values, tensor
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs

OUTPUT = (DType.INT16, (0.004, 0))
BIASES = ("int64", "int32")


def weights_of(shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, Quantization]:
    values = stored_values(DType.INT8, shape, 3)
    scales = np.linspace(0.0005, 0.006, shape[axis], dtype=np.float32)
    return values, Quantization.per_channel(scales, axis)


def bias_of(count: int, dtype: str, quant: Quantization) -> np.ndarray:
    return (np.arange(count) * 9173 - 20000).astype(dtype)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_convolutions_agree(bias: str, activation: str) -> None:
    x = stored_values(DType.INT16, (2, 6, 7, 5), 1)
    w, quant = weights_of((4, 3, 3, 5), 0)
    b = bias_of(4, bias, quant)
    inputs = [
        tensor("x", x, (0.0007, 0)),
        tensor("w", w, quant, constant=True),
        tensor(
            "b", b, Quantization.per_channel(quant.scale * np.float32(0.0007), 0), constant=True
        ),
    ]
    bias_type = DType.of(b).name
    attrs = conv2d_attrs("SAME", 2, 1, activation, quantized_bias_type=bias_type)
    assert_agrees(make_op("CONV_2D", inputs, OUTPUT, attrs, version=5), [x])


@pytest.mark.parametrize("bias", ["int64"])
def test_depthwise_convolutions_agree(bias: str) -> None:
    x = stored_values(DType.INT16, (1, 6, 7, 3), 1)
    w, quant = weights_of((1, 3, 3, 6), 3)
    b = bias_of(6, bias, quant)
    inputs = [
        tensor("x", x, (0.0007, 0)),
        tensor("w", w, quant, constant=True),
        tensor(
            "b", b, Quantization.per_channel(quant.scale * np.float32(0.0007), 0), constant=True
        ),
    ]
    attrs = depthwise_attrs("SAME", 1, 1, 2)
    assert_agrees(make_op("DEPTHWISE_CONV_2D", inputs, OUTPUT, attrs, version=3), [x])


@pytest.mark.parametrize("bias", BIASES)
def test_transposed_convolutions_agree(bias: str) -> None:
    x = stored_values(DType.INT16, (1, 3, 4, 5), 1)
    w, quant = weights_of((4, 3, 3, 5), 0)
    b = bias_of(4, bias, quant)
    inputs = [
        tensor("shape", np.array([1, 6, 8, 4], np.int32), constant=True),
        tensor("w", w, quant, constant=True),
        tensor("x", x, (0.0007, 0)),
        tensor(
            "b", b, Quantization.per_channel(quant.scale * np.float32(0.0007), 0), constant=True
        ),
    ]
    attrs = transpose_conv_attrs("SAME", 2, 2, quantized_bias_type=DType.of(b).name)
    assert_agrees(make_op("TRANSPOSE_CONV", inputs, OUTPUT, attrs, version=5), [x])


@pytest.mark.parametrize("bias", BIASES)
def test_fully_connected_layers_agree(bias: str) -> None:
    x = stored_values(DType.INT16, (3, 50), 1)
    w = stored_values(DType.INT8, (7, 50), 3)
    quant = Quantization.per_tensor(0.002)
    b = bias_of(7, bias, quant)
    inputs = [
        tensor("x", x, (0.0007, 0)),
        tensor("w", w, quant, constant=True),
        tensor("b", b, (0.0007 * 0.002, 0), constant=True),
    ]
    attrs = FullyConnectedAttrs(quantized_bias_type=DType.of(b).name)
    assert_agrees(make_op("FULLY_CONNECTED", inputs, OUTPUT, attrs, version=7), [x])


@pytest.mark.parametrize("bias", [None, np.int32, np.int64])
@pytest.mark.parametrize("per_channel", [False, True])
def test_rows_are_scaled_by_real_factors(bias: type | None, per_channel: bool) -> None:
    """Of 2000 outputs, one or more tell this form from rounding in fixed point once or twice."""
    rng = np.random.default_rng(1)
    x = rng.integers(-32768, 32767, (50, 40), np.int16)
    weights = tensor("w", rng.integers(-127, 128, (40, 40), np.int8), (0.005, 0), constant=True)
    if per_channel:
        scales = rng.uniform(0.001, 0.01, 40).astype(np.float32)
        weights.quant = Quantization.per_channel(scales, 0)
    added = None
    if bias is not None:
        added = tensor("b", rng.integers(-100000, 100000, 40).astype(bias), constant=True)
    attrs = FullyConnectedAttrs(
        quantized_bias_type="FLOAT32" if added is None else added.dtype.value
    )
    inputs = [tensor("x", x, (1e-4, 0)), weights, added]
    op = make_op("FULLY_CONNECTED", inputs, (DType.INT16, (3.3e-4, 0)), attrs, version=11)
    assert_agrees(op, [x])


def test_rows_times_computed_rows_are_rounded_once() -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-32768, 32767, (count, 40), np.int16) for count in (50, 40))
    inputs = [tensor("x", x, (1e-4, 0)), tensor("w", w, (2e-4, 0))]
    op = make_op("FULLY_CONNECTED", inputs, (DType.INT16, (3e-3, 0)), FullyConnectedAttrs(), 4)
    assert_agrees(op, [x, w])
