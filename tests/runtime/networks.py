"""Small networks as .tflite bytes, with answers that are easy to compute."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Quantization
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.softmax import SoftmaxAttrs
from tests.windows import conv2d_attrs, depthwise_attrs

F32, I8 = DType.FLOAT32, DType.INT8


def tflite(b: Builder) -> bytes:
    return dumps(b.model(), "tflite")


def sum_and_difference() -> bytes:
    """Inputs "left", "right" [2, 3]; outputs "sum", "difference"."""
    b = builder()
    left, right = (b.input(name, F32, (2, 3)) for name in ("left", "right"))
    total = b.op("ADD", [left, right], name="sum")
    return tflite(b.output(total, b.op("SUB", [left, right], name="difference")))


def relu(size: int = 6) -> bytes:
    """Input "x" [size], output "y" = max(x, 0)."""
    b = builder()
    return tflite(b.output(b.op("RELU", [b.input("x", F32, (size,))], name="y")))


def quantised_relu() -> bytes:
    """Input "q" int8 [4] of scale 0.5 and zero point 3."""
    b = builder()
    quant = Quantization.per_tensor(0.5, 3)
    x = b.input("q", I8, (4,), quant)
    return tflite(b.output(b.op("RELU", [x], name="y", quant=quant)))


def mixed(depth: int = 3) -> bytes:
    """RELU and TANH in turn on "x" [2, 5]: TANH can be taken from the native backend."""
    b = builder()
    t = b.input("x", F32, (2, 5))
    for index in range(depth):
        t = b.op("TANH" if index % 2 else "RELU", [t], name=f"layer{index}")
    return tflite(b.output(t))


def depthwise(width: int, channels: int = 8, multiplier: int = 1) -> bytes:
    """3x3 windows of int8 over "x" [1, 6, width, channels]."""
    b, random = builder(), np.random.default_rng(0)
    quant = Quantization.per_tensor(0.05, 3)
    x = b.input("x", I8, (1, 6, width, channels), quant)
    filters = channels * multiplier
    values = random.integers(-127, 128, (1, 3, 3, filters)).astype(np.int8)
    weights = b.constant("w", values, Quantization.per_channel([0.02] * filters, 3))
    attrs = depthwise_attrs(multiplier=multiplier)
    y = b.op("DEPTHWISE_CONV_2D", [x, weights, None], attrs, name="y", quant=quant)
    return tflite(b.output(y))


def convolutions(size: int = 48, channels: int = 32, depth: int = 4, window: int = 3) -> bytes:
    """A chain of 3x3 convolutions on "x" [1, size, size, channels]."""
    b, random = builder(), np.random.default_rng(0)
    t = b.input("x", F32, (1, size, size, channels))
    for index in range(depth):
        values = random.normal(0, 0.05, (channels, window, window, channels)).astype(np.float32)
        attrs = conv2d_attrs("SAME", 1, 1)
        t = b.op("CONV_2D", [t, b.constant(f"w{index}", values), None], attrs, name=f"conv{index}")
    return tflite(b.output(t))


def attention(rows: int, depth: int = 16) -> bytes:
    """Softmax of "q" [2, rows, depth] times "k" [2, depth, rows], times "v" [2, rows, depth]."""
    b = builder()
    shapes = {"q": (2, rows, depth), "k": (2, depth, rows), "v": (2, rows, depth)}
    q, k, v = (b.input(name, F32, shape) for name, shape in shapes.items())
    scores = b.op("BATCH_MATMUL", [q, k], name="scores")
    shares = b.op("SOFTMAX", [scores], SoftmaxAttrs(1.0), name="shares")
    return tflite(b.output(b.op("BATCH_MATMUL", [shares, v], name="y")))


def open_window() -> bytes:
    """3x3 windows over "x" [1, ?, ?, 1], as .onnx, which states a size beside an open one."""
    b = builder()
    x = b.input("x", F32, (1, None, None, 1))
    weights = b.constant("w", np.ones((1, 3, 3, 1), np.float32))
    y = b.op("CONV_2D", [x, weights, None], conv2d_attrs("VALID"), name="y")
    return dumps(b.output(y).model(), "onnx")


def convolutions_input(size: int = 48, channels: int = 32) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (1, size, size, channels)).astype(np.float32)
