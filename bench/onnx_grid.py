"""A grid of operators of .onnx files over sizes that exporters write, as networks of their own.

Each case is a line: a kind, its inputs and constants, its attributes. Sizes are those of layers of
image, sound and text networks as PyTorch, Keras and quantisers export them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.ops_cases import Case

if TYPE_CHECKING:
    import onnx

Array = np.ndarray
MICROSOFT = "com.microsoft"
OPSET = 20


@dataclass(frozen=True)
class Given:
    """An input of the network: a name of a numpy dtype, and sizes."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """One node, and what it is given, in the operator's order; None for what is left out."""

    kind: str
    operands: tuple[Given | Array | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    results: int = 1
    opset: int = OPSET

    @property
    def title(self) -> str:
        """The kind, the first operands' types and sizes, and the attributes."""
        given = [operand for operand in self.operands if operand is not None]
        sizes = [_described(operand) for operand in given if np.prod(operand.shape) > 1][:2]
        more = [f"{name}={value}" for name, value in self.attributes.items()]
        return " ".join([self.kind, *sizes, *more])

    def content(self) -> bytes:
        """The .onnx file."""
        from onnx import helper

        names = ["" if operand is None else f"x{i}" for i, operand in enumerate(self.operands)]
        results = [f"y{i}" for i in range(self.results)]
        node = helper.make_node(
            self.kind, names, results, "node", domain=self.domain, **self.attributes
        )
        graph = helper.make_graph(
            [node],
            "operator",
            [_input(n, x) for n, x in zip(names, self.operands, strict=True) if _is_given(x)],
            [helper.make_empty_tensor_value_info(name) for name in results],
            [_constant(n, x) for n, x in zip(names, self.operands, strict=True) if _is_array(x)],
        )
        versions = {"": self.opset, **({self.domain: 1} if self.domain else {})}
        opsets = [helper.make_opsetid(name, version) for name, version in versions.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(model.SerializeToString())


def onnx_grid() -> Iterator[Case]:
    """The cases, operator by operator; those of one title are counted."""
    seen: Counter[str] = Counter()
    for line in _LINES:
        seen[line.title] += 1
        count = f" {seen[line.title]}" if seen[line.title] > 1 else ""
        yield Case(f"onnx {line.title}{count}", line.kind, line.content(), suffix=".onnx")


def _is_given(operand: Given | Array | None) -> bool:
    return isinstance(operand, Given)


def _is_array(operand: Given | Array | None) -> bool:
    return isinstance(operand, np.ndarray)


def _described(operand: Given | Array) -> str:
    return f"{operand.dtype}[{'x'.join(map(str, operand.shape))}]"


def _input(name: str, given: Any) -> onnx.ValueInfoProto:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(given.dtype))
    return helper.make_tensor_value_info(name, dtype, given.shape)


def _constant(name: str, values: Any) -> onnx.TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(values, name)


def _f(*shape: int) -> Given:
    return Given("float32", shape)


def _u8(*shape: int) -> Given:
    return Given("uint8", shape)


def _i8(*shape: int) -> Given:
    return Given("int8", shape)


def _weights(*shape: int) -> Array:
    return np.random.default_rng(0).uniform(-0.3, 0.3, shape).astype(np.float32)


def _digits(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-127, 128, shape, dtype=np.int8)


def _scale(value: float = 0.03) -> Array:
    return np.array(value, np.float32)


def _zero(value: int = 128, dtype: str = "uint8") -> Array:
    return np.array(value, dtype)


def _list(*values: int) -> Array:
    return np.array(values, np.int64)


def _places(count: int, most: int) -> Array:
    return np.random.default_rng(1).integers(0, most, count)


_IMAGE = (1, 64, 56, 56)
_SMALL = (1, 256, 14, 14)
_ROWS = (1, 197, 768)
_MEAN = (_scale(), _zero())
_HALVES = np.array((1, 1, 2, 2), np.float32)


def _unary(kind: str, **attributes: Any) -> Line:
    return Line(kind, (_f(*_IMAGE),), attributes)


def _quantised(kind: str, *operands: Any, **attributes: Any) -> Line:
    return Line(kind, (_u8(*_IMAGE), *operands), attributes, MICROSOFT)


def _conv(x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Line:
    return Line("Conv", (_f(*x), _weights(*w), _weights(w[0])), attributes)


def _norm(kind: str, x: tuple[int, ...], *operands: Any, **attributes: Any) -> Line:
    return Line(kind, (_f(*x), *operands), attributes, opset=21)


def _recurrent(kind: str, gates: int, steps: int, width: int, cells: int) -> Line:
    weights = _weights(1, gates * cells, width), _weights(1, gates * cells, cells)
    operands = (_f(steps, 1, width), *weights, _weights(1, 2 * gates * cells))
    return Line(kind, operands, {"hidden_size": cells})


_ACTIVATIONS = (
    *(_unary(k) for k in ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu")),
    *(_unary(k) for k in ("HardSigmoid", "HardSwish", "Mish", "LeakyRelu", "ThresholdedRelu")),
    *(_unary(k) for k in ("Erf", "Exp", "Sqrt", "Reciprocal", "Floor", "Round", "Sign", "Neg")),
    _unary("Gelu"),
    _unary("Gelu", approximate="tanh"),
    Line("PRelu", (_f(*_IMAGE), _weights(64, 1, 1))),
    Line("Clip", (_f(*_IMAGE), _scale(0.0), _scale(6.0))),
    Line("Clip", (_f(*_IMAGE), _scale(-1.0), _scale(1.0))),
)
_ARITHMETIC = (
    *(Line(k, (_f(*_IMAGE), _f(*_IMAGE))) for k in ("Add", "Mul", "Div", "Max", "Pow")),
    *(Line(k, (_f(*_IMAGE), _f(1, 64, 1, 1))) for k in ("Add", "Mul")),
    Line("Where", (Given("bool", _IMAGE), _f(*_IMAGE), _f(*_IMAGE))),
    Line("Greater", (_f(*_IMAGE), _f(*_IMAGE))),
    Line("Add", (Given("int64", (4, 4096)), Given("int64", (4, 4096)))),
    Line("Cast", (_u8(*_IMAGE),), {"to": 1}),
    Line("Cast", (_f(*_IMAGE),), {"to": 2}),
    Line("Cast", (_f(*_IMAGE),), {"to": 10}),
    Line("Cast", (Given("int64", (4, 4096)),), {"to": 1}),
)
_QUANTISED = (
    _quantised("QLinearAdd", *_MEAN, _u8(*_IMAGE), *_MEAN, _scale(0.05), _zero()),
    _quantised("QLinearAdd", *_MEAN, _u8(1, 64, 1, 1), *_MEAN, _scale(0.05), _zero()),
    _quantised("QLinearMul", *_MEAN, _u8(*_IMAGE), *_MEAN, _scale(0.05), _zero()),
    _quantised("QLinearSigmoid", *_MEAN, _scale(1 / 256), _zero(0)),
    _quantised("QLinearLeakyRelu", *_MEAN, *_MEAN, alpha=0.1),
    _quantised("QLinearAveragePool", *_MEAN, *_MEAN, kernel_shape=[3, 3], strides=[2, 2]),
    _quantised("QLinearGlobalAveragePool", *_MEAN, *_MEAN, channels_last=0),
    Line(
        "QLinearConcat",
        (*_MEAN, _u8(*_IMAGE), *_MEAN, _u8(*_IMAGE), _scale(0.02), _zero()),
        {"axis": 1},
        MICROSOFT,
    ),
    _quantised("QLinearSoftmax", *_MEAN, _scale(1 / 256), _zero(0), axis=1, opset=13),
    Line("QuantizeLinear", (_f(*_IMAGE), *_MEAN)),
    Line("QuantizeLinear", (_f(*_IMAGE), _scale(), _zero(0, "int8"))),
    Line("QuantizeLinear", (_f(*_IMAGE), np.full(64, 0.03, "f4"), np.zeros(64, "i1")), {"axis": 1}),
    Line("DequantizeLinear", (_u8(*_IMAGE), *_MEAN)),
    Line("DequantizeLinear", (_i8(*_IMAGE), _scale(), _zero(0, "int8"))),
    Line("DynamicQuantizeLinear", (_f(*_ROWS),), results=3),
    Line("MatMulInteger", (_u8(197, 768), _digits(768, 768), _zero())),
    Line(
        "QLinearMatMul",
        (_u8(197, 768), *_MEAN, _digits(768, 768), _scale(), _zero(0, "int8"), *_MEAN),
    ),
    Line(
        "QLinearConv",
        (_u8(*_IMAGE), *_MEAN, _digits(64, 64, 3, 3), _scale(), _zero(0, "int8"), *_MEAN),
        {"pads": [1, 1, 1, 1]},
    ),
    Line(
        "QLinearConv",
        (_u8(*_IMAGE), *_MEAN, _digits(64, 1, 3, 3), _scale(), _zero(0, "int8"), *_MEAN),
        {"pads": [1, 1, 1, 1], "group": 64},
    ),
    Line(
        "DynamicQuantizeMatMul",
        (_f(197, 768), _digits(768, 768), _scale(), _zero(0, "int8")),
        {},
        MICROSOFT,
    ),
    Line("ConvInteger", (_u8(*_IMAGE), _digits(64, 64, 3, 3), _zero())),
)
_PRODUCTS = (
    _conv(_IMAGE, (64, 64, 3, 3), pads=[1, 1, 1, 1]),
    _conv(_SMALL, (256, 256, 1, 1)),
    _conv((1, 3, 224, 224), (64, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    _conv(_IMAGE, (64, 1, 3, 3), pads=[1, 1, 1, 1], group=64),
    _conv(_IMAGE, (64, 1, 5, 5), pads=[2, 2, 2, 2], group=64),
    _conv(_IMAGE, (64, 1, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2], group=64),
    _conv(_SMALL, (256, 1, 7, 7), pads=[3, 3, 3, 3], group=256),
    _conv(_IMAGE, (64, 8, 3, 3), pads=[1, 1, 1, 1], group=8),
    _conv(_IMAGE, (64, 64, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2]),
    _conv((1, 64, 4000), (64, 64, 5), pads=[2, 2]),
    _conv((1, 1, 16000), (64, 1, 400), strides=[160]),
    _conv((1, 256, 400), (256, 1, 31), pads=[15, 15], group=256),
    _conv((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), pads=[1] * 6),
    Line("ConvTranspose", (_f(*_SMALL), _weights(256, 128, 2, 2)), {"strides": [2, 2]}),
    Line(
        "ConvTranspose",
        (_f(*_SMALL), _weights(256, 128, 4, 4)),
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    Line("MatMul", (_f(197, 768), _weights(768, 768))),
    Line("MatMul", (_f(12, 197, 64), _f(12, 64, 197))),
    Line("MatMul", (_f(1, 768), _weights(768, 3072))),
    Line("Gemm", (_f(8, 512), _weights(1000, 512), _weights(1000)), {"transB": 1}),
    Line("Einsum", (_f(4, 12, 98, 64), _f(4, 12, 98, 64)), {"equation": "bhid,bhjd->bhij"}),
    _recurrent("LSTM", 4, 50, 128, 128),
    _recurrent("GRU", 3, 50, 128, 128),
    _recurrent("RNN", 1, 50, 128, 128),
)
_NORMS = (
    _norm("InstanceNormalization", _IMAGE, _weights(64), _weights(64)),
    _norm("GroupNormalization", _IMAGE, _weights(64), _weights(64), num_groups=8),
    _norm("BatchNormalization", _IMAGE, *(np.ones(64, "f4") for _ in range(4))),
    _norm("LayerNormalization", _ROWS, _weights(768), _weights(768)),
    Line(
        "SkipLayerNormalization",
        (_f(*_ROWS), _f(*_ROWS), _weights(768), _weights(768)),
        {},
        MICROSOFT,
    ),
    Line("SimplifiedLayerNormalization", (_f(*_ROWS), _weights(768)), {}, "", 1, 17),
    _norm("LpNormalization", (197, 768)),
    _norm("LRN", _IMAGE, size=5),
    _norm("Softmax", (1, 12, 197, 197)),
    _norm("Softmax", (1, 21, 129, 129), axis=1),
    _norm("LogSoftmax", (64, 1000)),
)
_POOLS = (
    _unary("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _unary("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    Line("MaxPool", (_f(*_IMAGE),), {"kernel_shape": [2, 2], "strides": [2, 2]}, "", 2),
    Line("MaxPool", (_f(1, 256, 400),), {"kernel_shape": [3], "strides": [2]}),
    _unary("AveragePool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    _unary("AveragePool", kernel_shape=[2, 2], strides=[2, 2]),
    _unary("LpPool", kernel_shape=[2, 2], strides=[2, 2]),
    _unary("GlobalAveragePool"),
    _unary("GlobalMaxPool"),
    Line("ReduceMean", (_f(*_IMAGE), _list(2, 3))),
    Line("ReduceMean", (_f(*_IMAGE), _list(1))),
    Line("ReduceSum", (_f(*_ROWS), _list(-1))),
    Line("ReduceMax", (_f(*_ROWS), _list(1))),
    Line("ReduceL2", (_f(*_ROWS), _list(-1))),
    Line("ArgMax", (_f(1, 21, 129, 129),), {"axis": 1}),
    Line("ArgMax", (_f(256, 1000),), {"axis": -1}),
    Line("TopK", (_f(1, 1000), _list(5)), {}, "", 2),
    Line("TopK", (_f(1, 8400), _list(300)), {}, "", 2),
    Line("CumSum", (_f(64, 1000), _list(1))),
)
_MOVES = (
    Line("Transpose", (_f(*_IMAGE),), {"perm": [0, 2, 3, 1]}),
    Line("Transpose", (_f(1, 56, 56, 64),), {"perm": [0, 3, 1, 2]}),
    Line("Transpose", (_f(1, 197, 12, 64),), {"perm": [0, 2, 1, 3]}),
    Line("Transpose", (_f(1024, 1024),), {"perm": [1, 0]}),
    Line("Transpose", (_f(1, 2, 58, 28, 28),), {"perm": [0, 2, 1, 3, 4]}),
    Line("Concat", (_f(*_IMAGE), _f(*_IMAGE)), {"axis": 1}),
    Line("Concat", (_f(*_IMAGE), _f(*_IMAGE)), {"axis": 3}),
    Line("Split", (_f(*_IMAGE),), {"axis": 1, "num_outputs": 2}, "", 2),
    Line("Slice", (_f(*_IMAGE), _list(0, 0), _list(56, 56), _list(2, 3), _list(2, 2))),
    Line("Slice", (_f(*_IMAGE), _list(-1), _list(-100), _list(3), _list(-1))),
    Line("Gather", (_weights(30522, 128), Given("int64", (1, 128))), {"axis": 0}),
    Line("Gather", (_f(*_IMAGE), _places(64, 64)), {"axis": 1}),
    Line("Gather", (_f(*_IMAGE), _places(56, 56)), {"axis": 3}),
    Line("GatherElements", (_f(256, 1000), _places(256 * 10, 1000).reshape(256, 10)), {"axis": 1}),
    Line("GatherND", (_f(1000, 64), _places(500, 1000).reshape(500, 1))),
    Line("ScatterND", (_f(1000, 64), _places(500, 1000).reshape(500, 1), _f(500, 64))),
    Line("Pad", (_f(*_IMAGE), _list(0, 0, 1, 1, 0, 0, 1, 1))),
    Line("Pad", (_f(*_IMAGE), _list(0, 0, 3, 3, 0, 0, 3, 3)), {"mode": "reflect"}),
    Line("Pad", (_f(*_IMAGE), _list(0, 0, 3, 3, 0, 0, 3, 3)), {"mode": "edge"}),
    Line("Tile", (_f(1, 64, 28, 28), _list(1, 1, 2, 2))),
    Line("Expand", (_f(1, 64, 1, 1), _list(1, 64, 56, 56))),
    Line("DepthToSpace", (_f(*_IMAGE),), {"blocksize": 2}),
    Line("DepthToSpace", (_f(*_IMAGE),), {"blocksize": 2, "mode": "CRD"}),
    Line("SpaceToDepth", (_f(*_IMAGE),), {"blocksize": 2}),
    Line("Resize", (_f(*_IMAGE), None, _HALVES), {"mode": "nearest"}),
    Line(
        "Resize",
        (_f(*_IMAGE), None, _HALVES),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
    ),
    Line("Resize", (_f(*_IMAGE), None, _HALVES), {"mode": "linear"}),
    Line(
        "Resize",
        (_f(*_IMAGE), None, _HALVES),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    Line("Resize", (_f(1, 3, 112, 112), None, _HALVES), {"mode": "cubic"}),
    Line(
        "Resize",
        (_u8(*_IMAGE), None, _HALVES),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
    ),
    Line("GridSample", (_f(1, 64, 28, 28), _f(1, 56, 56, 2)), {"mode": "linear"}),
    Line("Trilu", (_f(12, 197, 197),)),
    Line("OneHot", (Given("int64", (512,)), _list(128), np.array((0, 1), "f4"))),
    Line("Unique", (Given("int64", (4096,)),), {"sorted": 1}),
    Line("NonZero", (_f(256, 256),)),
)
_FUSED = (
    Line("FastGelu", (_f(*_ROWS), _weights(768)), {}, MICROSOFT),
    Line("BiasGelu", (_f(*_ROWS), _weights(768)), {}, MICROSOFT),
    Line("QuickGelu", (_f(*_ROWS),), {}, MICROSOFT),
    Line(
        "FusedConv",
        (_f(*_IMAGE), _weights(64, 64, 1, 1), _weights(64)),
        {"activation": "Relu"},
        MICROSOFT,
    ),
    Line(
        "Attention",
        (_f(1, 197, 768), _weights(768, 2304), _weights(2304)),
        {"num_heads": 12},
        MICROSOFT,
    ),
    Line(
        "MultiHeadAttention",
        (_f(1, 197, 768), _f(1, 197, 768), _f(1, 197, 768)),
        {"num_heads": 12},
        MICROSOFT,
    ),
)
_LINES = (
    *_ACTIVATIONS,
    *_ARITHMETIC,
    *_QUANTISED,
    *_PRODUCTS,
    *_NORMS,
    *_POOLS,
    *_MOVES,
    *_FUSED,
)
