"""Runs products of computed operands, and of groups, of sizes that fill no block.

They run as the worker runs networks: python -m tests.sanitize.computed NETWORK MODE NOTE
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.ops.operands import limits
from circlet.ops.softmax import SoftmaxAttrs
from tests.sanitize.worker import install, speaker
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs

F32, I8, U8 = DType.FLOAT32, DType.INT8, DType.UINT8
_DATA, _WEIGHTS = Quantization.per_tensor(0.05, 3), Quantization.per_tensor(0.02, 100)
_RESULT = Quantization.per_tensor(0.9, 5)


def _floats(b: Builder) -> None:
    """Every kernel that `pack_conv_f32` packs for."""
    rows, image = b.input("rows", F32, (5, 37)), b.input("image", F32, (1, 6, 5, 7))
    units, filters = b.input("units", F32, (21, 37)), b.input("filters", F32, (19, 3, 2, 7))
    bias, single = b.input("bias", F32, (19,)), b.input("single", F32, (1, 3, 3, 7))
    sizes = b.constant("sizes", np.array([1, 12, 10, 19], np.int32))
    b.output(
        b.op("FULLY_CONNECTED", [rows, units], FullyConnectedAttrs()),
        b.op("CONV_2D", [image, filters, bias], conv2d_attrs("SAME", 2, 1)),
        b.op("DEPTHWISE_CONV_2D", [image, single], depthwise_attrs("SAME", 1, 1, 1)),
        b.op("TRANSPOSE_CONV", [sizes, filters, image, bias], transpose_conv_attrs("SAME", 2, 2)),
    )


def _products(b: Builder) -> None:
    """Stacks of rows, plain and transposed, times one matrix."""
    plain, transposed = b.input("plain", F32, (3, 9, 21)), b.input("transposed", F32, (3, 21, 11))
    right, columns = b.input("right", F32, (21, 35)), b.input("columns", F32, (35, 21))
    b.output(
        b.op("BATCH_MATMUL", [plain, right], BatchMatMulAttrs()),
        b.op("BATCH_MATMUL", [plain, columns], BatchMatMulAttrs(adj_y=True)),
        b.op("BATCH_MATMUL", [transposed, right], BatchMatMulAttrs(adj_x=True)),
    )


def _integers(b: Builder) -> None:
    """Runs of one byte to more than a register, signed and unsigned."""
    for dtype in (I8, U8):
        for depth, units in ((1, 3), (6, 21), (39, 70)):
            name = f"{dtype.name} {depth}"
            image = b.input(f"image {name}", dtype, (1, 4, 5, depth), _DATA)
            quant = _WEIGHTS if dtype is U8 else Quantization.per_tensor(0.02)
            filters = b.input(f"filters {name}", dtype, (units, 3, 2, depth), quant)
            weights = b.input(f"weights {name}", dtype, (units, depth), _WEIGHTS)
            bias = b.input(f"bias {name}", DType.INT32, (units,))
            attrs = FullyConnectedAttrs(keep_num_dims=True)
            b.output(
                b.op("CONV_2D", [image, filters, bias], conv2d_attrs("SAME", 1, 2), quant=_RESULT),
                b.op("FULLY_CONNECTED", [image, weights, bias], attrs, quant=_RESULT),
            )


def _stacks(b: Builder) -> None:
    """Stacks of int8 matrices whose columns, or whose sums, lie side by side."""
    shares = Quantization.per_tensor(1 / 256, -128)
    for depth, columns in ((3, 1), (18, 21), (39, 70)):
        left = b.input(f"left {depth}", I8, (3, 5, depth), _DATA)
        right = b.input(f"right {depth}", I8, (3, depth, columns), _DATA)
        turned = b.input(f"turned {depth}", I8, (3, columns, depth), _DATA)
        across = b.op("BATCH_MATMUL", [left, right], BatchMatMulAttrs(), quant=_RESULT)
        along = b.op("BATCH_MATMUL", [left, turned], BatchMatMulAttrs(adj_y=True), quant=_RESULT)
        b.output(across, along, b.op("SOFTMAX", [across], SoftmaxAttrs(1.0), quant=shares))


def _node(b: Builder, kind: str, dtype: DType, shape: tuple[int, ...], *given: Tensor) -> None:
    """A node of ONNX without attributes, which becomes an output."""
    made = Tensor(f"made{len(b.graph.ops)}", dtype, shape)
    b.output(*b.op_many("CUSTOM", given, [made], OnnxAttrs(), custom_code=f"{PREFIX}{kind}"))


def _sums(b: Builder) -> None:
    """Rows, a few and many, times bytes, with zero points of their own."""
    for left, right in ((I8, U8), (U8, I8)):
        for rows, depth, columns in ((1, 38, 70), (3, 5, 130), (9, 39, 33), (20, 6, 1)):
            name = f"{left.name} {rows}"
            operands = (
                b.input(f"x {name}", left, (2, rows, depth)),
                b.input(f"y {name}", right, (2, depth, columns)),
                b.input(f"x zeros {name}", left, (2, rows, 1)),
                b.input(f"y zeros {name}", right, (2, 1, columns)),
            )
            _node(b, "MatMulInteger", DType.INT32, (2, rows, columns), *operands)


def _doubles(b: Builder) -> None:
    """Columns that are packed, and those that are read where they lie."""
    for rows, depth, columns in ((1, 9, 70), (17, 5, 33), (3, 4, 3)):
        x = b.input(f"x {rows}", DType.FLOAT64, (2, rows, depth))
        y = b.input(f"y {rows}", DType.FLOAT64, (2, depth, columns))
        _node(b, "MatMul", DType.FLOAT64, (2, rows, columns), x, y)


def _groups(b: Builder) -> None:
    """Groups within a register, of a register and more, and of bytes."""
    random = np.random.default_rng(5)
    for depth, channels in ((4, 36), (8, 72), (19, 57)):
        weights = random.standard_normal((channels, 3, 3, depth)).astype(np.float32)
        x = b.input(f"x {depth}", F32, (2, 9, 11, channels))
        w = b.constant(f"w {depth}", weights / np.float32(depth))
        stored = b.input(f"bytes {depth}", I8, (2, 5, 7, channels), _DATA)
        values = random.integers(-127, 128, weights.shape).astype(np.int8)
        filters = b.constant(f"filters {depth}", values, Quantization.per_tensor(0.02))
        attrs = conv2d_attrs("SAME", 1, 1)
        b.output(
            b.op("CONV_2D", [x, w, None], attrs),
            b.op("CONV_2D", [stored, filters, None], attrs, quant=_RESULT),
        )


NETWORKS: dict[str, Callable[[Builder], None]] = {
    "floats": _floats,
    "products": _products,
    "integers": _integers,
    "stacks": _stacks,
    "sums": _sums,
    "doubles": _doubles,
    "groups": _groups,
}


def _values(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    low, high = (-9999, 9999) if dtype is DType.INT32 else limits(dtype)
    return random.integers(low, high, shape, dtype.numpy, endpoint=True)


def computed_network(name: str) -> tuple[Graph, list[np.ndarray]]:
    """One of the networks, and random inputs."""
    b, random = builder(), np.random.default_rng(4)
    NETWORKS[name](b)
    return b.build(), [_values(t.dtype, t.static_shape, random) for t in b.graph.inputs]


def main() -> None:
    """Run one network on random values; the answers must be the records'."""
    network, mode, note = sys.argv[1:]
    install(mode, speaker(Path(note)))
    graph, inputs = computed_network(network)
    session = Session(dumps(Model([graph]), "tflite"), strict=True, threads=1)
    wanted = evaluate_graph(graph, inputs)
    for got, value in zip(session.run(inputs).values(), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=0, atol=1e-4 if got.dtype.kind == "f" else 0)


if __name__ == "__main__":
    main()
