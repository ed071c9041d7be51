"""Small quantised graphs for the tests of the 8-bit kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import Padding
from circlet.ops.operands import limits
from circlet.ops.requantization import EVEN
from tests.windows import padding_of

Inputs = list[np.ndarray]


@dataclass(frozen=True)
class Conv:
    """One convolution: sizes and options; `filters` 0 means depthwise, one filter a channel."""

    image: tuple[int, int, int, int]
    filters: int
    taps: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: str | Padding = "SAME"
    activation: str = "NONE"
    zeros: tuple[int, int, int] = (-3, 0, 5)
    per_channel: bool = False
    bias: bool = True
    dtype: DType = DType.INT8
    output_scale: float = 0.0
    multiplier: int = 1
    groups: int = 1

    @property
    def is_depthwise(self) -> bool:
        return self.filters == 0

    @property
    def channels(self) -> int:
        return self.image[3] * self.multiplier if self.is_depthwise else self.filters

    @property
    def depth(self) -> int:
        return self.image[3] // self.groups

    @property
    def products(self) -> int:
        return self.taps[0] * self.taps[1] * (1 if self.is_depthwise else self.depth)


def random_bytes(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Values over the whole range of an 8-bit type, both ends included."""
    low, high = limits(dtype)
    values = rng.integers(low, high + 1, shape).astype(dtype.numpy)
    if values.size > 1:
        values.reshape(-1)[[0, -1]] = low, high
    return values


def conv_graph(cases: Sequence[Conv], rng: np.random.Generator) -> tuple[Graph, Inputs]:
    """A graph of convolutions side by side, output `y<n>` for case n, and inputs for them."""
    made = builder()
    for number, case in enumerate(cases):
        quant = Quantization.per_tensor(0.02, case.zeros[0])
        image = made.input(f"x{number}", case.dtype, case.image, quant)
        made.output(conv_op(made, case, image, rng, f"y{number}"))
    return made.build(), [random_bytes(rng, case.image, case.dtype) for case in cases]


def rounding_to_even(graph: Graph) -> Graph:
    """A graph whose products are scaled as ONNX Runtime scales them."""
    for op in graph.ops:
        op.requantization = EVEN
    return graph


def conv_op(
    made: Builder, case: Conv, image: Tensor, rng: np.random.Generator, name: str = "y"
) -> Tensor:
    """Append the convolution of a case to a builder."""
    weights = _weights(made, case, rng)
    bias = made.constant("bias", _bias(case, rng)) if case.bias else None
    attrs = (DepthwiseConv2DAttrs if case.is_depthwise else Conv2DAttrs)(
        case.padding if isinstance(case.padding, tuple) else padding_of(case.padding),
        case.stride,
        case.dilation,
        activation=case.activation,
    )
    kind = "DEPTHWISE_CONV_2D" if case.is_depthwise else "CONV_2D"
    scale = case.output_scale or 0.02 * 0.01 * 60 * np.sqrt(case.products)
    quant = Quantization.per_tensor(float(np.float32(scale)), case.zeros[2])
    return made.op(kind, [image, weights, bias], attrs, name=name, quant=quant)


@dataclass(frozen=True)
class Rows:
    """One fully connected layer: (rows, depth, units) and options."""

    sizes: tuple[int, int, int]
    dtype: DType = DType.INT8
    zeros: tuple[int, int, int] = (-3, 0, 5)
    activation: str = "NONE"
    per_channel: bool = False


def rows_graph(cases: Sequence[Rows], rng: np.random.Generator) -> tuple[Graph, Inputs]:
    """A graph of fully connected layers side by side and inputs for them."""
    made = builder()
    for number, case in enumerate(cases):
        made.output(_rows_op(made, case, rng, number))
    return made.build(), [random_bytes(rng, case.sizes[:2], case.dtype) for case in cases]


def _rows_op(made: Builder, case: Rows, rng: np.random.Generator, number: int) -> Tensor:
    rows, depth, units = case.sizes
    data_quant = Quantization.per_tensor(0.02, case.zeros[0])
    data = made.input(f"x{number}", case.dtype, (rows, depth), data_quant)
    scales = _scales(units if case.per_channel else 1, case.zeros[1], rng)
    weights = made.constant("w", random_bytes(rng, (units, depth), case.dtype), scales)
    bias = made.constant("bias", rng.integers(-9000, 9000, units).astype(np.int32))
    attrs = FullyConnectedAttrs(activation=case.activation)
    quant = Quantization.per_tensor(float(np.float32(0.012 * np.sqrt(depth))), case.zeros[2])
    operands = [data, weights, bias]
    return made.op("FULLY_CONNECTED", operands, attrs, name=f"y{number}", quant=quant)


def _weights(made: Builder, case: Conv, rng: np.random.Generator) -> Tensor:
    depthwise = (1, *case.taps, case.channels)
    shape = depthwise if case.is_depthwise else (case.filters, *case.taps, case.depth)
    scales = _scales(case.channels if case.per_channel else 1, case.zeros[1], rng)
    if case.per_channel:
        axis = 3 if case.is_depthwise else 0
        scales = Quantization.per_channel(scales.scale, axis)
    return made.constant("w", random_bytes(rng, shape, case.dtype), scales)


def _scales(count: int, zero: int, rng: np.random.Generator) -> Quantization:
    if count == 1:
        return Quantization.per_tensor(0.01, zero)
    return Quantization.per_channel(rng.uniform(0.0001, 0.02, count), 0)


def _bias(case: Conv, rng: np.random.Generator) -> np.ndarray:
    reach = 2000 * int(np.sqrt(case.products) + 1)
    return rng.integers(-reach, reach, case.channels).astype(np.int32)
