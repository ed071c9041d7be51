"""A grid of operators over sizes that exporters make, whichever networks are at hand.

Sizes are those of the layers that Keras, PyTorch, JAX and ONNX exporters write for pictures, sound,
text and tables; odd ones are among them, as attention heads of 33 or windows of hundreds of taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from bench.ops_cases import Case
from circlet.formats import dumps
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.lstm_operands import SequenceLstmAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.smooth import GeluAttrs
from circlet.ops.softmax import SoftmaxAttrs

Shape = tuple[int, ...]
Make = Callable[["Net"], Tensor]
_SCALE = 1 / 32
_WEIGHT_SCALE = 1 / 256


class Net:
    """A network of one operator, or of the chain that exporters write for one.

    Attributes:
        is_float: Whether its tensors are float32, or else int8.
    """

    def __init__(self, is_float: bool) -> None:
        """Start a network of either type."""
        self.is_float = is_float
        self._build = builder()
        self._random = np.random.default_rng(0)

    def x(self, *shape: int) -> Tensor:
        """An input."""
        name = f"x{len(self._build.graph.inputs)}"
        return self._build.input(name, self._dtype, shape, self.quant())

    def weights(self, *shape: int) -> Tensor:
        """Constant weights; of int8 in [-127, 127]."""
        name = f"w{len(self._build.graph.tensors)}"
        if self.is_float:
            return self._build.constant(name, self._random.uniform(-0.3, 0.3, shape).astype("f4"))
        digits = self._random.integers(-127, 128, shape, dtype=np.int8)
        return self._build.constant(name, digits, self.quant(_WEIGHT_SCALE))

    def bias(self, count: int) -> Tensor:
        """A bias of zeros."""
        name = f"b{len(self._build.graph.tensors)}"
        if self.is_float:
            return self._build.constant(name, np.zeros(count, np.float32))
        quant = self.quant(_SCALE * _WEIGHT_SCALE)
        return self._build.constant(name, np.zeros(count, np.int32), quant)

    def variable(self, *shape: int) -> Tensor:
        """A state that lives on from run to run."""
        return self._build.variable(f"v{len(self._build.graph.tensors)}", self._dtype, shape)

    def number(self, value: float) -> Tensor:
        """A constant scalar."""
        name = f"c{len(self._build.graph.tensors)}"
        return self._build.constant(name, np.array(value, np.float32))

    def list(self, *values: int) -> Tensor:
        """A constant list of sizes, axes or places."""
        name = f"c{len(self._build.graph.tensors)}"
        return self._build.constant(name, np.array(values, np.int32))

    def op(
        self,
        kind: str,
        *inputs: Tensor | None,
        attrs: object = None,
        scale: float = _SCALE,
        zero: int = 0,
    ) -> Tensor:
        """The result of an operator; of int8 with a scale and a zero point."""
        quant = self.quant(scale, zero)
        return self._build.op(kind, list(inputs), attrs, quant=quant)

    def quant(self, scale: float = _SCALE, zero: int = 0) -> Quantization | None:
        """How int8 is stored; None for floats."""
        return None if self.is_float else Quantization.per_tensor(scale, zero)

    def content(self, result: Tensor) -> bytes:
        """The .tflite file."""
        return dumps(self._build.output(result).model(), "tflite")

    @property
    def _dtype(self) -> DType:
        return DType.FLOAT32 if self.is_float else DType.INT8


def _conv(shape: Shape, filters: Shape, strides: tuple[int, int], net: Net) -> Tensor:
    attrs = Conv2DAttrs(SAME_UPPER, strides)
    return net.op(
        "CONV_2D", net.x(*shape), net.weights(*filters), net.bias(filters[0]), attrs=attrs
    )


def _depthwise(shape: Shape, window: int, stride: int, net: Net) -> Tensor:
    attrs = DepthwiseConv2DAttrs(SAME_UPPER, (stride, stride), depth_multiplier=1)
    weights, bias = net.weights(1, window, window, shape[-1]), net.bias(shape[-1])
    return net.op("DEPTHWISE_CONV_2D", net.x(*shape), weights, bias, attrs=attrs)


def _dense(rows: int, depth: int, units: int, net: Net) -> Tensor:
    operands = net.x(rows, depth), net.weights(units, depth), net.bias(units)
    return net.op("FULLY_CONNECTED", *operands, attrs=FullyConnectedAttrs())


def _dense_computed(rows: int, depth: int, units: int, net: Net) -> Tensor:
    operands = net.x(rows, depth), net.x(units, depth)
    return net.op("FULLY_CONNECTED", *operands, attrs=FullyConnectedAttrs(), scale=1.0)


def _products(a: Shape, b: Shape, adjoint: bool, net: Net) -> Tensor:
    attrs = BatchMatMulAttrs(False, adjoint)
    return net.op("BATCH_MATMUL", net.x(*a), net.x(*b), attrs=attrs, scale=1.0)


def _attention(heads: int, length: int, size: int, net: Net) -> Tensor:
    """Scores, softmax and values of attention, as exporters write them."""
    query, key, value = (net.x(1, heads, length, size) for _ in range(3))
    scores = net.op("BATCH_MATMUL", query, key, attrs=BatchMatMulAttrs(False, True), scale=0.5)
    shares = net.op("SOFTMAX", scores, attrs=SoftmaxAttrs(1.0), scale=1 / 256, zero=-128)
    return net.op("BATCH_MATMUL", shares, value, attrs=BatchMatMulAttrs())


def _lstm(steps: int, width: int, cells: int, net: Net) -> Tensor:
    """A layer over one sequence; gates in the operator's order, without peepholes."""
    weights = [net.weights(cells, width) for _ in range(4)]
    recurrent = [net.weights(cells, cells) for _ in range(4)]
    biases = [net.bias(cells) for _ in range(4)]
    states = [net.variable(1, cells), net.variable(1, cells)]
    nothing: list[Tensor | None] = [None] * 3
    operands = [net.x(1, steps, width), *weights, *recurrent, *nothing, *biases, None, None]
    attrs = SequenceLstmAttrs("TANH")
    return net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", *operands, *states, attrs=attrs)


def _power(shape: Shape, exponent: float, net: Net) -> Tensor:
    x = net.x(*shape)
    if exponent != int(exponent):
        x = net.op("ABS", x)
    return net.op("POW", x, net.number(exponent))


def _tanh_gelu(shape: Shape, net: Net) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as a chain."""
    x = net.x(*shape)
    cube = net.op("POW", x, net.number(3.0))
    inner = _add(net, x, _scaled(net, cube, 0.044715))
    curve = net.op("TANH", _scaled(net, inner, 0.7978845608))
    return _multiplied(net, _scaled(net, x, 0.5), _add(net, curve, net.number(1.0)))


def _swish(shape: Shape, net: Net) -> Tensor:
    x = net.x(*shape)
    return _multiplied(net, x, net.op("LOGISTIC", x, scale=1 / 256, zero=-128))


def _add(net: Net, a: Tensor, b: Tensor) -> Tensor:
    return net.op("ADD", a, b)


def _multiplied(net: Net, a: Tensor, b: Tensor) -> Tensor:
    return net.op("MUL", a, b)


def _scaled(net: Net, a: Tensor, by: float) -> Tensor:
    return _multiplied(net, a, net.number(by))


def _two(kind: str, shape: Shape, net: Net) -> Tensor:
    return net.op(kind, net.x(*shape), net.x(*shape), scale=1 / 16)


def _one(kind: str, shape: Shape, scale: float, zero: int, net: Net) -> Tensor:
    return net.op(kind, net.x(*shape), scale=scale, zero=zero)


def _root(kind: str, shape: Shape, net: Net) -> Tensor:
    return net.op(kind, net.op("ABS", net.x(*shape)))


def _gelu(approximate: bool, shape: Shape, net: Net) -> Tensor:
    return net.op("GELU", net.x(*shape), attrs=GeluAttrs(approximate))


def _softmax(shape: Shape, net: Net) -> Tensor:
    return net.op("SOFTMAX", net.x(*shape), attrs=SoftmaxAttrs(1.0), scale=1 / 256, zero=-128)


def _pool(kind: str, shape: Shape, window: int, stride: int, net: Net) -> Tensor:
    attrs = Pool2DAttrs(SAME_UPPER, (stride, stride), (window, window))
    return net.op(kind, net.x(*shape), attrs=attrs)


def _transpose(shape: Shape, order: Shape, net: Net) -> Tensor:
    return net.op("TRANSPOSE", net.x(*shape), net.list(*order))


def _reverse(shape: Shape, axis: int, net: Net) -> Tensor:
    return net.op("REVERSE_V2", net.x(*shape), net.list(axis))


def _gather(shape: Shape, axis: int, net: Net) -> Tensor:
    places = np.random.default_rng(1).permutation(shape[axis])
    return net.op("GATHER", net.x(*shape), net.list(*places), attrs=GatherAttrs(axis))


_IMAGES = ((1, 56, 56, 64), (1, 14, 14, 256), (1, 112, 112, 24))
_BOTH: dict[str, tuple[Make, ...]] = {
    "pointwise convolution": tuple(
        partial(_conv, (1, size, size, depth), (units, 1, 1, depth), (1, 1))
        for size, depth, units in ((112, 32, 64), (28, 128, 128), (14, 256, 512), (7, 96, 320))
    ),
    "3x3 convolution": tuple(
        partial(_conv, (1, size, size, depth), (units, 3, 3, depth), (stride, stride))
        for size, depth, units, stride in ((224, 3, 32, 2), (56, 64, 64, 1), (14, 256, 256, 1))
    ),
    "convolution along time": (
        partial(_conv, (1, 1, 1024, 1), (128, 1, 512, 1), (1, 4)),
        partial(_conv, (1, 1, 4000, 1), (64, 1, 400, 1), (1, 160)),
        partial(_conv, (1, 1, 128, 64), (64, 1, 64, 64), (1, 1)),
        partial(_conv, (1, 1, 498, 40), (96, 1, 5, 40), (1, 1)),
    ),
    "depthwise convolution": tuple(
        partial(_depthwise, (1, size, size, depth), window, stride)
        for size, depth, window, stride in ((112, 32, 3, 1), (56, 128, 3, 2), (28, 120, 5, 1))
    ),
    "dense": tuple(
        partial(_dense, rows, depth, units)
        for rows, depth, units in ((1, 1024, 1000), (8, 256, 256), (128, 768, 768), (1, 640, 128))
    ),
    "dense of computed operands": tuple(
        partial(_dense_computed, *sizes) for sizes in ((98, 64, 98), (196, 192, 64), (50, 33, 50))
    ),
    "batched products": (
        partial(_products, (8, 98, 64), (8, 98, 64), True),
        partial(_products, (4, 49, 33), (4, 33, 49), False),
        partial(_products, (16, 256, 64), (16, 64, 1), False),
        partial(_products, (16, 1, 64), (16, 64, 256), False),
    ),
    "attention": tuple(
        partial(_attention, *sizes) for sizes in ((4, 49, 33), (12, 197, 64), (3, 98, 40))
    ),
    "softmax": tuple(
        partial(_softmax, shape) for shape in ((4096, 10), (1, 12, 197, 197), (512, 2), (1, 1001))
    ),
    "residual addition": tuple(partial(_two, "ADD", shape) for shape in _IMAGES),
    "multiplication": tuple(partial(_two, "MUL", shape) for shape in _IMAGES[:1]),
    "max pooling": tuple(
        partial(_pool, "MAX_POOL_2D", shape, window, 2)
        for shape, window in (((1, 224, 224, 3), 2), ((1, 112, 112, 64), 3), ((1, 56, 56, 20), 2))
    ),
    "average pooling": (partial(_pool, "AVERAGE_POOL_2D", (1, 56, 56, 64), 3, 1),),
    "transposition": tuple(
        partial(_transpose, shape, order)
        for shape, order in (
            ((1, 112, 112, 64), (0, 3, 1, 2)),
            ((1, 64, 112, 112), (0, 2, 3, 1)),
            ((1024, 1024), (1, 0)),
            ((1, 197, 12, 64), (0, 2, 1, 3)),
            ((32, 48, 40, 24), (3, 1, 0, 2)),
        )
    ),
    "reversal": (partial(_reverse, (512, 256), 1), partial(_reverse, (1, 100, 512), 1)),
    "gathering": (partial(_gather, (512, 256), 1), partial(_gather, (1, 64, 56, 56), 1)),
    "tanh": tuple(partial(_one, "TANH", shape, 1 / 128, 0) for shape in _IMAGES[:2]),
    "logistic": tuple(partial(_one, "LOGISTIC", shape, 1 / 256, -128) for shape in _IMAGES[:2]),
    "hard swish": tuple(partial(_one, "HARD_SWISH", shape, 1 / 32, 0) for shape in _IMAGES[:2]),
    "swish": (partial(_swish, _IMAGES[0]),),
}
_FLOATS: dict[str, tuple[Make, ...]] = {
    "power": tuple(partial(_power, _IMAGES[0], exponent) for exponent in (2, 3, -1, 0.5, 1.7)),
    "gelu": (partial(_gelu, False, (1, 197, 3072)), partial(_gelu, True, (1, 197, 3072))),
    "gelu as a chain": (partial(_tanh_gelu, (1, 197, 3072)),),
    "square root": (partial(_root, "SQRT", _IMAGES[0]), partial(_root, "RSQRT", _IMAGES[0])),
    "exponential": (partial(_one, "EXP", _IMAGES[0], 1.0, 0),),
    "lstm": tuple(
        partial(_lstm, *sizes) for sizes in ((32, 40, 64), (98, 28, 100), (16, 256, 256))
    ),
    "sine": (partial(_one, "SIN", _IMAGES[0], 1.0, 0),),
}


def grid() -> Iterator[Case]:
    """The cases of the grid, family by family, in floats and in int8."""
    for is_float, families in ((True, _BOTH | _FLOATS), (False, _BOTH)):
        dtype = "fp32" if is_float else "int8"
        for family, makers in families.items():
            for number, make in enumerate(makers):
                net = Net(is_float)
                yield Case(f"{dtype} {family} {number}", family, net.content(make(net)))
