"""Networks of any depth for scaling curves, in float and in int8, made with Circlet's builder."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER

CHANNELS = 64
CLASSES = 10
KINDS = ("fp32", "int8")
_SCALE = 0.05
_WIDTHS = (32, 24, 40, 48, 20, 56, 36, 64, 28, 44)


def network(kind: str, depth: int, size: int) -> bytes:
    """A .tflite file: a strided 3x3 convolution, `depth` separable blocks, a mean, a classifier.

    The weights are random and seeded; `size` is the height and width of the input `x`.
    """
    layers = _Layers(kind)
    x = layers.build.input("x", layers.dtype, (1, size, size, 3), layers.quant)
    y = layers.weighted(
        "CONV_2D", x, (CHANNELS, 3, 3, 3), Conv2DAttrs(SAME_UPPER, (2, 2), activation="RELU6")
    )
    for _ in range(depth):
        shape = (1, 3, 3, CHANNELS)
        attrs = DepthwiseConv2DAttrs(SAME_UPPER, (1, 1), depth_multiplier=1, activation="RELU6")
        y = layers.weighted("DEPTHWISE_CONV_2D", y, shape, attrs)
        pointwise = Conv2DAttrs(SAME_UPPER, (1, 1), activation="RELU6")
        y = layers.weighted("CONV_2D", y, (CHANNELS, 1, 1, CHANNELS), pointwise)
    axes = layers.build.constant("axes", np.array([1, 2], np.int32))
    y = layers.build.op("MEAN", [y, axes], quant=layers.quant)
    y = layers.weighted("FULLY_CONNECTED", y, (CLASSES, CHANNELS), FullyConnectedAttrs())
    return dumps(layers.build.output(y).model(), "tflite")


class _Layers:
    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {KINDS}")
        self.build: Builder = builder()
        self._random = np.random.default_rng(0)
        self._is_float = kind == "fp32"
        self.dtype = DType.FLOAT32 if self._is_float else DType.INT8
        self.quant = None if self._is_float else _quant(_SCALE, -128)
        self.logistic_quant = None if self._is_float else _quant(1 / 256, -128)

    def weighted(self, kind: str, x: Tensor, shape: tuple[int, ...], attrs: object) -> Tensor:
        """A layer with weights of a shape and a bias, behind `x`."""
        along = len(shape) - 1 if kind == "DEPTHWISE_CONV_2D" else 0
        weights, bias = self._weights(shape, along), self._bias(shape[along])
        return self.build.op(kind, [x, weights, bias], attrs, quant=self.quant)

    def _weights(self, shape: tuple[int, ...], along: int) -> Tensor:
        name = f"w{len(self.build.graph.tensors)}"
        if self._is_float:
            values = self._random.uniform(-0.3, 0.3, shape).astype(np.float32)
            return self.build.constant(name, values)
        channels = shape[along]
        scale = Quantization(
            np.full(channels, 0.004, np.float32), np.zeros(channels, np.int64), along
        )
        digits = self._random.integers(-127, 128, shape, dtype=np.int8)
        return self.build.constant(name, digits, scale)

    def _bias(self, channels: int) -> Tensor:
        name = f"b{len(self.build.graph.tensors)}"
        if self._is_float:
            return self.build.constant(name, np.full(channels, 0.1, np.float32))
        scale = np.full(channels, 0.004 * _SCALE, np.float32)
        quant = Quantization(scale, np.zeros(channels, np.int64), 0)
        return self.build.constant(name, np.full(channels, 100, np.int32), quant)


def _quant(scale: float, zero: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero], np.int64), 0)


def varied(kind: str, ops: int, *, alike: bool) -> bytes:
    """A .tflite file of `ops` operators in residual blocks of five, at 16 x 16 pixels.

    A block is a 3x3 and a depthwise convolution, an addition, a 1x1 convolution and a logistic.
    Blocks are `alike`, or no two have the same channels.
    """
    layers = _Layers(kind)
    width = _WIDTHS[0]
    y = layers.build.input("x", layers.dtype, (1, 16, 16, width), layers.quant)
    for block in range(ops // 5):
        wider = width if alike else _WIDTHS[(block + 1) % len(_WIDTHS)] + block // len(_WIDTHS)
        first = layers.weighted(
            "CONV_2D", y, (wider, 3, 3, width), Conv2DAttrs(SAME_UPPER, (1, 1), activation="RELU6")
        )
        y = layers.weighted(
            "DEPTHWISE_CONV_2D",
            first,
            (1, 3, 3, wider),
            DepthwiseConv2DAttrs(SAME_UPPER, (1, 1), depth_multiplier=1, activation="RELU6"),
        )
        y = layers.build.op("ADD", [y, first], quant=layers.quant)
        y = layers.weighted(
            "CONV_2D", y, (wider, 1, 1, wider), Conv2DAttrs(SAME_UPPER, (1, 1), activation="NONE")
        )
        y = layers.build.op("LOGISTIC", [y], quant=layers.logistic_quant)
        width = wider
    return dumps(layers.build.output(y).model(), "tflite")
