"""Networks of one operator, or one loop, that takes many seconds, for those who stop runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.ir import DType, Model, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.detection import DetectionAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from tests.recurrent import Lstm, lstm_graph

F32, I8, I32 = DType.FLOAT32, DType.INT8, DType.INT32
BYTES = Quantization.per_tensor(0.05, 0)


def _of(kind: str, shapes: Sequence[tuple[int, ...]], attrs: object = None) -> Model:
    """An operator over float inputs of these sizes; its second operand, a filter, is constant."""
    b = builder()
    data = b.input("x0", F32, shapes[0])
    rest = [b.constant(f"w{i}", np.zeros(shape, np.float32)) for i, shape in enumerate(shapes[1:])]
    return _model(b, b.op(kind, [data, *rest], attrs, name="long"))


def _model(b: Builder, *outputs: Tensor) -> Model:
    return Model([b.output(*outputs).build()])


def _convolution_of_bytes() -> Model:
    b = builder()
    x = b.input("x", I8, (1, 1024, 1024, 64), BYTES)
    weights = b.constant("w", np.ones((64, 15, 15, 64), np.int8), BYTES)
    return _model(b, b.op("CONV_2D", [x, weights, None], Conv2DAttrs(SAME_UPPER), quant=BYTES))


def _transposed() -> Model:
    b = builder()
    sizes = b.constant("sizes", np.array([1, 512, 512, 64], np.int32))
    weights = b.constant("w", np.zeros((64, 31, 31, 64), np.float32))
    x = b.input("x", F32, (1, 512, 512, 64))
    attrs = TransposeConvAttrs(SAME_UPPER)
    return _model(b, b.op("TRANSPOSE_CONV", [sizes, weights, x], attrs, name="long"))


def _products(left: tuple[int, ...], right: tuple[int, ...], kind: str = "BATCH_MATMUL") -> Model:
    b = builder()
    pair = [b.input("x", F32, left), b.input("y", F32, right)]
    return _model(b, b.op(kind, pair, name="long"))


def _top_k() -> Model:
    b = builder()
    count = 24_000_000
    x, kept = b.input("x", F32, (count,)), b.constant("k", np.array([count], np.int32))
    made = [Tensor("values", F32, (count,)), Tensor("places", I32, (count,))]
    return _model(b, *b.op_many("TOPK_V2", [x, kept], made))


def _unique() -> Model:
    b = builder()
    x = b.input("x", F32, (72_000_000,))
    made = [Tensor("values", F32, (None,)), Tensor("places", I32, x.shape)]
    return _model(b, *b.op_many("UNIQUE", [x], made))


def _suppression(soft: bool) -> Model:
    b = builder()
    count = 300_000
    given = [b.input("boxes", F32, (count, 4)), b.input("scores", F32, (count,))]
    values = [("overlap", 0.5), ("threshold", -1.0), *([("sigma", 0.5)] if soft else [])]
    given.append(b.constant("most", np.array(count, np.int32)))
    given += [b.constant(name, np.array(value, np.float32)) for name, value in values]
    made = [Tensor("kept", I32, (count,)), Tensor("found", I32, ())]
    if soft:
        made.insert(1, Tensor("scored", F32, (count,)))
    kind = "NON_MAX_SUPPRESSION_V5" if soft else "NON_MAX_SUPPRESSION_V4"
    return _model(b, *b.op_many(kind, given, made))


def _detection(regular: bool) -> Model:
    b = builder()
    boxes, classes, rows = 240_000, 20 if regular else 2, 1 << 16
    shapes = ((1, boxes, 4), (1, boxes, classes), (boxes, 4))
    given = [b.input(name, F32, shape) for name, shape in zip("abc", shapes, strict=True)]
    attrs = DetectionAttrs(
        max_detections=rows,
        max_classes_per_detection=1,
        detections_per_class=rows,
        use_regular_nms=regular,
        nms_score_threshold=-1.0,
        nms_iou_threshold=2.0,
        num_classes=classes,
        y_scale=1.0,
        x_scale=1.0,
        h_scale=1.0,
        w_scale=1.0,
    )
    made = [
        Tensor(f"made{i}", F32, shape)
        for i, shape in enumerate(((1, rows, 4), (1, rows), (1, rows), (1,)))
    ]
    code = "TFLite_Detection_PostProcess"
    return _model(b, *b.op_many("CUSTOM", given, made, attrs, custom_code=code))


def _loop() -> Model:
    """A convolution of some milliseconds again and again."""
    shape = (1, 128, 128, 16)
    condition = builder("condition")
    condition.input("x", F32, shape)
    condition.output(condition.constant("always", np.array([True])))
    body = builder("body")
    weights = body.constant("w", np.zeros((16, 5, 5, 16), np.float32))
    x = body.input("x", F32, shape)
    body.output(body.op("CONV_2D", [x, weights], Conv2DAttrs(SAME_UPPER), name="turned"))
    b = builder("main")
    b.op_many("WHILE", [b.input("x", F32, shape)], [after := Tensor("after", F32, shape)])
    graph = b.output(after).build()
    graph.ops[0].regions = [condition.build(), body.build()]
    return Model([graph, *graph.ops[0].regions])


def _lstm(stored: bool) -> Model:
    form = Lstm(sizes=(1, 60_000, 256, 384, 384), stored=stored)
    return Model([lstm_graph(form)])


SAME_3D = ((2, 2), (7, 7), (7, 7))
CASES: dict[str, Callable[[], Model]] = {
    "convolution": lambda: _of(
        "CONV_2D", [(1, 768, 768, 64), (64, 21, 21, 64)], Conv2DAttrs(SAME_UPPER)
    ),
    "pointwise": lambda: _of(
        "CONV_2D", [(1, 256, 256, 1024), (4096, 1, 1, 1024)], Conv2DAttrs(SAME_UPPER)
    ),
    "convolution-int8": _convolution_of_bytes,
    "depthwise": lambda: _of(
        "DEPTHWISE_CONV_2D",
        [(1, 1024, 1024, 32), (1, 63, 63, 32)],
        DepthwiseConv2DAttrs(SAME_UPPER, depth_multiplier=1),
    ),
    "transposed": _transposed,
    "volume": lambda: _of(
        "CONV_3D", [(1, 32, 128, 128, 32), (5, 15, 15, 32, 32)], Conv3DAttrs(SAME_3D)
    ),
    "matrices": lambda: _products((8000, 8000), (8000, 8000)),
    "stack": lambda: _products((400, 1000, 500), (1, 500, 1000)),
    "connected": lambda: _products((8000, 8000), (8000, 8000), "FULLY_CONNECTED"),
    "pool": lambda: _of(
        "AVERAGE_POOL_2D",
        [(1, 2048, 2048, 4)],
        Pool2DAttrs(SAME_UPPER, kernel_shape=(513, 513)),
    ),
    "power": lambda: _products((100_000_000,), (1,), "POW"),
    "softmax": lambda: _of("SOFTMAX", [(200_000, 1000)]),
    "top-k": _top_k,
    "unique": _unique,
    "suppression": lambda: _suppression(soft=False),
    "soft-suppression": lambda: _suppression(soft=True),
    "detection": lambda: _detection(regular=False),
    "detection-by-class": lambda: _detection(regular=True),
    "lstm": lambda: _lstm(stored=False),
    "lstm-int8": lambda: _lstm(stored=True),
    "loop": _loop,
}
