"""A grid of operators of .onnx files over sizes that exporters write, as networks of their own.

Each case is a line: a kind, its inputs and constants, its attributes. Sizes are those of layers of
image, sound and text networks as PyTorch, Keras and quantisers export them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.onnx_line import (
    MICROSOFT,
    Given,
    Line,
    digits,
    f32,
    i8,
    ints,
    places,
    scale,
    u8,
    weights,
    zero,
)
from bench.ops_cases import Case


def onnx_grid() -> Iterator[Case]:
    """The cases, operator by operator; those of one title are counted."""
    seen: Counter[str] = Counter()
    for line in _LINES:
        seen[line.title] += 1
        count = f" {seen[line.title]}" if seen[line.title] > 1 else ""
        yield Case(f"onnx {line.title}{count}", line.kind, line.content(), suffix=".onnx")


_IMAGE = (1, 64, 56, 56)
_SMALL = (1, 256, 14, 14)
_ROWS = (1, 197, 768)
_MEAN = (scale(), zero())
_HALVES = np.array((1, 1, 2, 2), np.float32)


def _unary(kind: str, **attributes: Any) -> Line:
    return Line(kind, (f32(*_IMAGE),), attributes)


def _quantised(kind: str, *operands: Any, **attributes: Any) -> Line:
    return Line(kind, (u8(*_IMAGE), *operands), attributes, MICROSOFT)


def _conv(x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Line:
    return Line("Conv", (f32(*x), weights(*w), weights(w[0])), attributes)


def _norm(kind: str, x: tuple[int, ...], *operands: Any, **attributes: Any) -> Line:
    return Line(kind, (f32(*x), *operands), attributes, opset=21)


def _dynamic_lstm(steps: int, batch: int, width: int, cells: int) -> Line:
    both = digits(1, width, 4 * cells), digits(1, cells, 4 * cells)
    step = np.full(1, 0.002, np.float32), np.zeros(1, np.int8)
    operands = (f32(steps, batch, width), *both, weights(1, 8 * cells), None, None, None, None)
    return Line("DynamicQuantizeLSTM", (*operands, *step, *step), {"hidden_size": cells}, MICROSOFT)


def _recurrent(kind: str, gates: int, steps: int, width: int, cells: int) -> Line:
    both = weights(1, gates * cells, width), weights(1, gates * cells, cells)
    operands = (f32(steps, 1, width), *both, weights(1, 2 * gates * cells))
    return Line(kind, operands, {"hidden_size": cells})


_ACTIVATIONS = (
    *(_unary(k) for k in ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu")),
    *(_unary(k) for k in ("HardSigmoid", "HardSwish", "Mish", "LeakyRelu", "ThresholdedRelu")),
    *(_unary(k) for k in ("Erf", "Exp", "Sqrt", "Reciprocal", "Floor", "Round", "Sign", "Neg")),
    _unary("Gelu"),
    _unary("Gelu", approximate="tanh"),
    Line("PRelu", (f32(*_IMAGE), weights(64, 1, 1))),
    Line("Clip", (f32(*_IMAGE), scale(0.0), scale(6.0))),
    Line("Clip", (f32(*_IMAGE), scale(-1.0), scale(1.0))),
)
_ARITHMETIC = (
    *(Line(k, (f32(*_IMAGE), f32(*_IMAGE))) for k in ("Add", "Mul", "Div", "Max", "Pow")),
    *(Line(k, (f32(*_IMAGE), f32(1, 64, 1, 1))) for k in ("Add", "Mul")),
    Line("Where", (Given("bool", _IMAGE), f32(*_IMAGE), f32(*_IMAGE))),
    Line("Greater", (f32(*_IMAGE), f32(*_IMAGE))),
    Line("Add", (Given("int64", (4, 4096)), Given("int64", (4, 4096)))),
    Line("Cast", (u8(*_IMAGE),), {"to": 1}),
    Line("Cast", (f32(*_IMAGE),), {"to": 2}),
    Line("Cast", (f32(*_IMAGE),), {"to": 10}),
    Line("Cast", (Given("int64", (4, 4096)),), {"to": 1}),
)
_QUANTISED = (
    _quantised("QLinearAdd", *_MEAN, u8(*_IMAGE), *_MEAN, scale(0.05), zero()),
    _quantised("QLinearAdd", *_MEAN, u8(1, 64, 1, 1), *_MEAN, scale(0.05), zero()),
    _quantised("QLinearMul", *_MEAN, u8(*_IMAGE), *_MEAN, scale(0.05), zero()),
    _quantised("QLinearSigmoid", *_MEAN, scale(1 / 256), zero(0)),
    _quantised("QLinearLeakyRelu", *_MEAN, *_MEAN, alpha=0.1),
    _quantised("QLinearAveragePool", *_MEAN, *_MEAN, kernel_shape=[3, 3], strides=[2, 2]),
    _quantised("QLinearGlobalAveragePool", *_MEAN, *_MEAN, channels_last=0),
    Line(
        "QLinearConcat",
        (*_MEAN, u8(*_IMAGE), *_MEAN, u8(*_IMAGE), scale(0.02), zero()),
        {"axis": 1},
        MICROSOFT,
    ),
    _quantised("QLinearSoftmax", *_MEAN, scale(1 / 256), zero(0), axis=1, opset=13),
    Line("QuantizeLinear", (f32(*_IMAGE), *_MEAN)),
    Line("QuantizeLinear", (f32(*_IMAGE), scale(), zero(0, "int8"))),
    Line(
        "QuantizeLinear", (f32(*_IMAGE), np.full(64, 0.03, "f4"), np.zeros(64, "i1")), {"axis": 1}
    ),
    Line("DequantizeLinear", (u8(*_IMAGE), *_MEAN)),
    Line("DequantizeLinear", (i8(*_IMAGE), scale(), zero(0, "int8"))),
    Line("DynamicQuantizeLinear", (f32(*_ROWS),), results=3),
    Line("MatMulInteger", (u8(197, 768), digits(768, 768), zero())),
    Line("MatMulInteger", (u8(12, 128, 64), i8(12, 64, 128), zero(), zero(3, "int8"))),
    Line("MatMulInteger", (u8(12, 128, 128), u8(12, 128, 64), zero(), zero())),
    Line("MatMulInteger", (u8(512, 512), i8(512, 512), zero())),
    Line("MatMulInteger", (u8(1, 768), i8(768, 768), zero())),
    Line(
        "QLinearMatMul",
        (u8(197, 768), *_MEAN, digits(768, 768), scale(), zero(0, "int8"), *_MEAN),
    ),
    Line("QLinearMatMul", (u8(12, 128, 64), *_MEAN, u8(12, 64, 128), *_MEAN, *_MEAN)),
    Line(
        "QLinearMatMul",
        (
            *(i8(12, 128, 128), scale(), zero(0, "int8")),
            *(i8(12, 128, 64), scale(), zero(0, "int8")),
            *(scale(), zero(0, "int8")),
        ),
    ),
    Line(
        "QLinearConv",
        (u8(*_IMAGE), *_MEAN, digits(64, 64, 3, 3), scale(), zero(0, "int8"), *_MEAN),
        {"pads": [1, 1, 1, 1]},
    ),
    Line(
        "QLinearConv",
        (u8(*_IMAGE), *_MEAN, digits(64, 1, 3, 3), scale(), zero(0, "int8"), *_MEAN),
        {"pads": [1, 1, 1, 1], "group": 64},
    ),
    *(
        Line(
            "QLinearConv",
            (
                *(u8(1, channels, size, size), *_MEAN),
                *(digits(channels, channels // 32, 3, 3), scale(), zero(0, "int8"), *_MEAN),
            ),
            {"pads": [1, 1, 1, 1], "group": 32},
        )
        for channels, size in ((128, 56), (512, 14), (1024, 7))
    ),
    Line(
        "DynamicQuantizeMatMul",
        (f32(197, 768), digits(768, 768), scale(), zero(0, "int8")),
        {},
        MICROSOFT,
    ),
    _dynamic_lstm(20, 1, 128, 256),
    _dynamic_lstm(20, 8, 128, 256),
    Line(
        "QAttention",
        (
            *(u8(1, 128, 768), digits(768, 2304), weights(2304), scale(), scale(0.002)),
            *(None, zero(), zero(0, "int8")),
        ),
        {"num_heads": 12},
        MICROSOFT,
    ),
    Line("ConvInteger", (u8(*_IMAGE), digits(64, 64, 3, 3), zero())),
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
    _conv((1, 128, 56, 56), (128, 4, 3, 3), pads=[1, 1, 1, 1], group=32),
    _conv((1, 512, 14, 14), (512, 16, 3, 3), pads=[1, 1, 1, 1], group=32),
    _conv((1, 1024, 7, 7), (1024, 32, 3, 3), pads=[1, 1, 1, 1], group=32),
    _conv((1, 240, 28, 28), (240, 80, 1, 1), group=3),
    _conv(_IMAGE, (64, 64, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2]),
    _conv((1, 64, 4000), (64, 64, 5), pads=[2, 2]),
    _conv((1, 1, 16000), (64, 1, 400), strides=[160]),
    _conv((1, 256, 400), (256, 1, 31), pads=[15, 15], group=256),
    _conv((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), pads=[1] * 6),
    Line("ConvTranspose", (f32(*_SMALL), weights(256, 128, 2, 2)), {"strides": [2, 2]}),
    Line(
        "ConvTranspose",
        (f32(*_SMALL), weights(256, 128, 4, 4)),
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    Line("MatMul", (f32(197, 768), weights(768, 768))),
    Line("MatMul", (f32(12, 197, 64), f32(12, 64, 197))),
    Line("MatMul", (f32(1, 768), weights(768, 3072))),
    Line("Gemm", (f32(8, 512), weights(1000, 512), weights(1000)), {"transB": 1}),
    Line("MatMul", (Given("float64", (64, 784)), weights(784, 100).astype("f8"))),
    Line("MatMul", (Given("float64", (1, 784)), weights(784, 100).astype("f8"))),
    Line("MatMul", (Given("float64", (4, 64, 64)), Given("float64", (4, 64, 64)))),
    Line(
        "Gemm",
        (Given("float64", (64, 128)), weights(100, 128).astype("f8"), weights(100).astype("f8")),
        {"transB": 1, "alpha": 0.5},
    ),
    Line("Einsum", (f32(4, 12, 98, 64), f32(4, 12, 98, 64)), {"equation": "bhid,bhjd->bhij"}),
    _recurrent("LSTM", 4, 50, 128, 128),
    _recurrent("GRU", 3, 50, 128, 128),
    _recurrent("RNN", 1, 50, 128, 128),
)
_NORMS = (
    _norm("InstanceNormalization", _IMAGE, weights(64), weights(64)),
    _norm("GroupNormalization", _IMAGE, weights(64), weights(64), num_groups=8),
    _norm("BatchNormalization", _IMAGE, *(np.ones(64, "f4") for _ in range(4))),
    _norm("LayerNormalization", _ROWS, weights(768), weights(768)),
    Line(
        "SkipLayerNormalization",
        (f32(*_ROWS), f32(*_ROWS), weights(768), weights(768)),
        {},
        MICROSOFT,
    ),
    Line("SimplifiedLayerNormalization", (f32(*_ROWS), weights(768)), {}, "", 1, 17),
    _norm("LpNormalization", (197, 768)),
    _norm("LRN", _IMAGE, size=5),
    _norm("Softmax", (1, 12, 197, 197)),
    _norm("Softmax", (1, 21, 129, 129), axis=1),
    _norm("LogSoftmax", (64, 1000)),
)
_POOLS = (
    _unary("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _unary("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    Line("MaxPool", (f32(*_IMAGE),), {"kernel_shape": [2, 2], "strides": [2, 2]}, "", 2),
    Line("MaxPool", (f32(1, 256, 400),), {"kernel_shape": [3], "strides": [2]}),
    _unary("AveragePool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    _unary("AveragePool", kernel_shape=[2, 2], strides=[2, 2]),
    _unary("LpPool", kernel_shape=[2, 2], strides=[2, 2]),
    _unary("GlobalAveragePool"),
    _unary("GlobalMaxPool"),
    Line("ReduceMean", (f32(*_IMAGE), ints(2, 3))),
    Line("ReduceMean", (f32(*_IMAGE), ints(1))),
    Line("ReduceSum", (f32(*_ROWS), ints(-1))),
    Line("ReduceMax", (f32(*_ROWS), ints(1))),
    Line("ReduceL2", (f32(*_ROWS), ints(-1))),
    Line("ArgMax", (f32(1, 21, 129, 129),), {"axis": 1}),
    Line("ArgMax", (f32(256, 1000),), {"axis": -1}),
    Line("TopK", (f32(1, 1000), ints(5)), {}, "", 2),
    Line("TopK", (f32(1, 8400), ints(300)), {}, "", 2),
    Line("CumSum", (f32(64, 1000), ints(1))),
)
_MOVES = (
    Line("Transpose", (f32(*_IMAGE),), {"perm": [0, 2, 3, 1]}),
    Line("Transpose", (f32(1, 56, 56, 64),), {"perm": [0, 3, 1, 2]}),
    Line("Transpose", (f32(1, 197, 12, 64),), {"perm": [0, 2, 1, 3]}),
    Line("Transpose", (f32(1024, 1024),), {"perm": [1, 0]}),
    Line("Transpose", (f32(1, 2, 58, 28, 28),), {"perm": [0, 2, 1, 3, 4]}),
    Line("Concat", (f32(*_IMAGE), f32(*_IMAGE)), {"axis": 1}),
    Line("Concat", (f32(*_IMAGE), f32(*_IMAGE)), {"axis": 3}),
    Line("Split", (f32(*_IMAGE),), {"axis": 1, "num_outputs": 2}, "", 2),
    Line("Slice", (f32(*_IMAGE), ints(0, 0), ints(56, 56), ints(2, 3), ints(2, 2))),
    Line("Slice", (f32(*_IMAGE), ints(-1), ints(-100), ints(3), ints(-1))),
    Line("Gather", (weights(30522, 128), Given("int64", (1, 128))), {"axis": 0}),
    Line("Gather", (f32(*_IMAGE), places(64, 64)), {"axis": 1}),
    Line("Gather", (f32(*_IMAGE), places(56, 56)), {"axis": 3}),
    Line("GatherElements", (f32(256, 1000), places(256 * 10, 1000).reshape(256, 10)), {"axis": 1}),
    Line("GatherND", (f32(1000, 64), places(500, 1000).reshape(500, 1))),
    Line("ScatterND", (f32(1000, 64), places(500, 1000).reshape(500, 1), f32(500, 64))),
    Line("Pad", (f32(*_IMAGE), ints(0, 0, 1, 1, 0, 0, 1, 1))),
    Line("Pad", (f32(*_IMAGE), ints(0, 0, 3, 3, 0, 0, 3, 3)), {"mode": "reflect"}),
    Line("Pad", (f32(*_IMAGE), ints(0, 0, 3, 3, 0, 0, 3, 3)), {"mode": "edge"}),
    Line("Tile", (f32(1, 64, 28, 28), ints(1, 1, 2, 2))),
    Line("Expand", (f32(1, 64, 1, 1), ints(1, 64, 56, 56))),
    Line("DepthToSpace", (f32(*_IMAGE),), {"blocksize": 2}),
    Line("DepthToSpace", (f32(*_IMAGE),), {"blocksize": 2, "mode": "CRD"}),
    Line("SpaceToDepth", (f32(*_IMAGE),), {"blocksize": 2}),
    Line("Resize", (f32(*_IMAGE), None, _HALVES), {"mode": "nearest"}),
    Line(
        "Resize",
        (f32(*_IMAGE), None, _HALVES),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
    ),
    Line("Resize", (f32(*_IMAGE), None, _HALVES), {"mode": "linear"}),
    Line(
        "Resize",
        (f32(*_IMAGE), None, _HALVES),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    Line("Resize", (f32(1, 3, 112, 112), None, _HALVES), {"mode": "cubic"}),
    Line(
        "Resize",
        (u8(*_IMAGE), None, _HALVES),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
    ),
    Line("GridSample", (f32(1, 64, 28, 28), f32(1, 56, 56, 2)), {"mode": "linear"}),
    Line("Trilu", (f32(12, 197, 197),)),
    Line("OneHot", (Given("int64", (512,)), ints(128), np.array((0, 1), "f4"))),
    Line("Unique", (Given("int64", (4096,)),), {"sorted": 1}),
    Line("NonZero", (f32(256, 256),)),
)
_FUSED = (
    Line("FastGelu", (f32(*_ROWS), weights(768)), {}, MICROSOFT),
    Line("BiasGelu", (f32(*_ROWS), weights(768)), {}, MICROSOFT),
    Line("QuickGelu", (f32(*_ROWS),), {}, MICROSOFT),
    Line(
        "FusedConv",
        (f32(*_IMAGE), weights(64, 64, 1, 1), weights(64)),
        {"activation": "Relu"},
        MICROSOFT,
    ),
    Line(
        "Attention",
        (f32(1, 197, 768), weights(768, 2304), weights(2304)),
        {"num_heads": 12},
        MICROSOFT,
    ),
    Line(
        "MultiHeadAttention",
        (f32(1, 197, 768), f32(1, 197, 768), f32(1, 197, 768)),
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
