"""Networks of one operator or a few over a float image, for writing .onnx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.blocks import DepthAttrs
from circlet.ops.build import default_attrs, infer_types
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.order import CumsumAttrs, ReverseSequenceAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.ops.shape import SqueezeAttrs
from circlet.ops.smooth import GeluAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs

Net = Callable[[Builder, Tensor], Tensor | Sequence[Tensor]]
F32, I32, I64 = DType.FLOAT32, DType.INT32, DType.INT64
IMAGE = (1, 8, 6, 4)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def ints(b: Builder, *values: int, name: str = "ints") -> Tensor:
    return b.constant(f"{name}{len(b.graph.tensors)}", np.array(values, np.int32))


def one(kind: str, attrs: object = None, *rest: Any, dtype: DType | None = None) -> Net:
    """An operator over the image and constants."""

    def make(b: Builder, x: Tensor) -> Tensor:
        given = [ints(b, *r) if isinstance(r, tuple) else r for r in rest]
        given = [
            b.constant(f"c{i}", r) if isinstance(r, np.ndarray) else r for i, r in enumerate(given)
        ]
        return b.op(kind, [x, *given], attrs, dtype=dtype, name="made")

    return make


def conv(padding: Any = SAME_UPPER, **more: Any) -> Net:
    return one("CONV_2D", Conv2DAttrs(padding, **more), weights(5, 3, 3, 4), weights(5))


def transposed(b: Builder, x: Tensor) -> Tensor:
    sizes, filters = ints(b, 1, 17, 12, 3), b.constant("w", weights(3, 3, 3, 4))
    attrs = TransposeConvAttrs(((0, 0), (1, 0)), (2, 2), "RELU")
    return b.op("TRANSPOSE_CONV", [sizes, filters, x], attrs, dtype=F32, name="made")


def chain(b: Builder, x: Tensor) -> Tensor:
    """Layers as image networks have them: a residual, a border, a mean, a classifier."""
    filters = [b.constant(f"w{i}", weights(4, 3, 3, 4)) for i in range(3)]
    attrs = Conv2DAttrs(SAME_UPPER, activation="RELU6")
    left = b.op("CONV_2D", [x, filters[0], None], attrs, name="left")
    right = b.op("CONV_2D", [left, filters[1], None], attrs, name="right")
    summed = b.op(
        "ADD", [b.op("LOGISTIC", [right], name="gate"), left], AddAttrs("RELU"), name="sum"
    )
    scaled = b.op("MUL", [summed, b.constant("s", weights(4))], name="scaled")
    padded = b.op("PAD", [scaled, ints_table(b, (0, 0), (1, 2), (2, 1), (0, 0))], name="padded")
    joined = b.op("CONCATENATION", [padded, padded], ConcatenationAttrs(-1), name="joined")
    mean = b.op("MEAN", [joined, ints(b, 1, 2)], ReducerAttrs(False), name="mean")
    dense = b.constant("dense", weights(3, 8))
    return b.op("FULLY_CONNECTED", [mean, dense, None], FullyConnectedAttrs(), name="made")


def ints_table(b: Builder, *pairs: tuple[int, int]) -> Tensor:
    return b.constant(f"table{len(b.graph.tensors)}", np.array(pairs, np.int32))


def pad(kind: str, attrs: object = None) -> Net:
    return lambda b, x: b.op(
        kind, [x, ints_table(b, (0, 0), (2, 1), (1, 3), (0, 0))], attrs, name="made"
    )


def many(
    kind: str, attrs: object, count: int, given: Callable[[Builder, Tensor], list[Tensor]]
) -> Net:
    """An operator of several results, as large as its record says."""

    def make(b: Builder, x: Tensor) -> Sequence[Tensor]:
        dtypes = [F32, I32] if kind == "TOPK_V2" else [F32] * count
        outputs = [Tensor(f"made {index}", dtype, ()) for index, dtype in enumerate(dtypes)]
        made = b.op_many(
            kind, given(b, x), outputs, default_attrs(kind) if attrs is None else attrs
        )
        for tensor, inferred in zip(made, infer_types(b.graph.ops[-1]), strict=True):
            tensor.dtype, tensor.shape = inferred.dtype, inferred.shape
        return made

    return make


def blocks(kind: str, rows: int) -> Net:
    def make(b: Builder, x: Tensor) -> Tensor:
        cut = b.op("TILE", [x, ints(b, rows, 1, 1, 1)], name="tiled")
        amounts = ints_table(b, (0, 0), (0, 2)) if rows == 1 else ints_table(b, (0, 1), (1, 0))
        return b.op(kind, [cut, ints(b, 2, 2), amounts], name="made")

    return make


FLOATS: dict[str, Net] = {
    "conv": conv(),
    "conv, amounts": conv(((2, 0), (1, 3)), strides=(2, 1), activation="RELU6"),
    "conv, dilated": conv(dilations=(2, 2), activation="RELU_N1_TO_1"),
    "conv, groups": one(
        "CONV_2D", Conv2DAttrs(((1, 1), (1, 1)), groups=2), weights(6, 3, 3, 2), weights(6)
    ),
    "depthwise": one(
        "DEPTHWISE_CONV_2D",
        DepthwiseConv2DAttrs(SAME_UPPER, (2, 2)),
        weights(1, 3, 3, 8),
        weights(8),
    ),
    "transposed conv": transposed,
    "average": one("AVERAGE_POOL_2D", Pool2DAttrs(SAME_UPPER, (2, 2), (3, 3), "RELU")),
    "largest": one("MAX_POOL_2D", Pool2DAttrs(((1, 1), (0, 1)), (2, 1), (3, 2))),
    "l2 pool": one("L2_POOL_2D", Pool2DAttrs(((0, 0), (0, 0)), (2, 2), (2, 2))),
    "dense": one("FULLY_CONNECTED", FullyConnectedAttrs("RELU"), weights(7, 192), weights(7)),
    "dense, axes kept": one(
        "FULLY_CONNECTED", FullyConnectedAttrs(keep_num_dims=True), weights(7, 4), weights(7)
    ),
    "product": lambda b, x: b.op(
        "BATCH_MATMUL",
        [x, b.constant("y", weights(8, 5, 4))],
        BatchMatMulAttrs(adj_y=True),
        name="made",
    ),
    "product, first turned": lambda b, x: b.op(
        "BATCH_MATMUL",
        [x, b.constant("y", weights(1, 1, 6, 5))],
        BatchMatMulAttrs(adj_x=True),
        name="made",
    ),
    "image network": chain,
    "leaky": one("LEAKY_RELU", LeakyReluAttrs(0.25)),
    "prelu": one("PRELU", None, weights(1, 1, 4)),
    "gelu": one("GELU", GeluAttrs(False)),
    "gelu, tanh": one("GELU", GeluAttrs(True)),
    "floor mod": one("FLOOR_MOD", None, np.array([1.5, -0.5, 2, -3], np.float32)),
    "floor div": one("FLOOR_DIV", None, np.array([1.5, -0.5, 2, -3], np.float32)),
    "atan2": one("ATAN2", None, weights(*IMAGE)),
    "squared difference": one("SQUARED_DIFFERENCE", None, weights(6, 4)),
    "not equal": one("NOT_EQUAL", None, np.array([0], np.float32), dtype=DType.BOOL),
    "cast": one("CAST", CastAttrs("FLOAT32", "INT32"), dtype=I32),
    "softmax": one("SOFTMAX", SoftmaxAttrs(0.5)),
    "log softmax": one("LOG_SOFTMAX"),
    "l2 norm": one("L2_NORMALIZATION"),
    "reshape": lambda b, x: b.op("RESHAPE", [x, ints(b, 4, -1)], name="made"),
    "squeeze": one("SQUEEZE", SqueezeAttrs((0,))),
    "transpose": one("TRANSPOSE", None, (0, 3, 1, 2)),
    "pad": pad("PAD"),
    "mirrored": pad("MIRROR_PAD", MirrorPadAttrs("REFLECT")),
    "mirrored, border": pad("MIRROR_PAD", MirrorPadAttrs("SYMMETRIC")),
    "tile": one("TILE", None, (2, 1, 3, 1)),
    "pack": lambda b, x: b.op("PACK", [x, x], PackAttrs(2, -1), name="made"),
    "unpack": many("UNPACK", UnpackAttrs(4, 3), 4, lambda b, x: [x]),
    "split": many("SPLIT", SplitAttrs(2), 2, lambda b, x: [ints(b, 3), x]),
    "split, uneven": many(
        "SPLIT_V", SplitAttrs(2), 2, lambda b, x: [x, ints(b, 3, -1), ints(b, 1)]
    ),
    "space to depth": one("SPACE_TO_DEPTH", DepthAttrs(2)),
    "depth to space": one("DEPTH_TO_SPACE", DepthAttrs(2)),
    "space to batch": blocks("SPACE_TO_BATCH_ND", 1),
    "batch to space": blocks("BATCH_TO_SPACE_ND", 4),
    "slice": lambda b, x: b.op(
        "SLICE", [x, ints(b, 0, 2, 1, 0), ints(b, 1, -1, 3, 4)], name="made"
    ),
    "strided slice": lambda b, x: b.op(
        "STRIDED_SLICE",
        [x, ints(b, 0, 7, 1, 2), ints(b, 1, 0, 6, 3), ints(b, 1, -2, 2, 1)],
        StridedSliceAttrs(begin_mask=1, shrink_axis_mask=8),
        name="made",
    ),
    "reversed": one("REVERSE_V2", None, (1, 3)),
    "reversed sequence": one("REVERSE_SEQUENCE", ReverseSequenceAttrs(1, 0), (5,)),
    "gather": one("GATHER", GatherAttrs(2), (3, 0, 0)),
    "gather, batches": one("GATHER", GatherAttrs(1, 1), np.array([[1, 7, 0]], np.int32)),
    "gather nd": one("GATHER_ND", None, np.array([[0, 3], [0, 7]], np.int32)),
    "largest place": one("ARG_MAX", ArgAttrs("INT32"), (-1,), dtype=I32),
    "top k": many("TOPK_V2", None, 2, lambda b, x: [x, b.constant("k", np.array(3, np.int32))]),
    "cumulated": one("CUMSUM", CumsumAttrs(True, True), (1,)),
    "sum": one("SUM", ReducerAttrs(True), (1, 3)),
    "product of elements": one("REDUCE_PROD", ReducerAttrs(False), (2,)),
    "bilinear": one("RESIZE_BILINEAR", ResizeAttrs("half_pixel"), (12, 9)),
    "bilinear, corners": one("RESIZE_BILINEAR", ResizeAttrs("align_corners"), (5, 9)),
    "nearest": one("RESIZE_NEAREST_NEIGHBOR", ResizeAttrs("asymmetric"), (12, 9)),
    "shape": one("SHAPE", dtype=I32),
    "broadcast": one("BROADCAST_TO", None, (3, 8, 6, 4)),
    "updated": lambda b, x: b.op(
        "DYNAMIC_UPDATE_SLICE",
        [x, b.constant("u", weights(1, 2, 2, 4)), ints(b, 0, 7, 1, 0)],
        name="made",
    ),
}
