"""The products of a network in PyTorch: the same convolutions and matrix products, one by one.

A .tflite file has no PyTorch twin, so only the products are compared: each CONV_2D,
DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED and BATCH_MATMUL in float32, of the same sizes
and with its bias, on random data that is padded beforehand. Activations, sums and movement between
them are not among it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from statistics import median
from typing import Any

from circlet.ir import DType, Op
from circlet.ops.batch_matmul import adjoint
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.operands import operand
from circlet.ops.transpose_conv import TransposeConvAttrs

PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL")
Call = Callable[[], Any]


def missing() -> str:
    """Why nothing can be measured here, or ""."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if torch.cuda.is_available() else "PyTorch sees no GPU"


def products_us(ops: Sequence[Op], rounds: int = 30) -> float:
    """Microseconds of the GPU for all products of some ops in a row: the median of several rounds.

    They are captured as one CUDA graph, so what launching them from Python costs is not in it.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    calls = [_call(torch, op) for op in ops if op.kind in PRODUCTS]
    with torch.inference_mode():
        graph = _captured(torch, calls)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(rounds):
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
    return median(times)


def _captured(torch: Any, calls: Sequence[Call]) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            for call in calls:
                call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def is_float_product(op: Op) -> bool:
    """Whether an op is a product of floats."""
    result = op.outputs[0].dtype
    return op.kind in PRODUCTS and result is DType.FLOAT32


def _call(torch: Any, op: Op) -> Call:
    if op.kind == "FULLY_CONNECTED":
        units, depth = operand(op, 1).static_shape
        rows = _random(torch, (operand(op, 0).elements // depth, depth))
        weights, bias = _random(torch, (units, depth)), _random(torch, (units,))
        return lambda: torch.nn.functional.linear(rows, weights, bias)
    if op.kind == "BATCH_MATMUL":
        left, right = (
            _random(torch, operand(op, n).static_shape).transpose(-1, -2)
            if turned
            else _random(torch, operand(op, n).static_shape)
            for n, turned in enumerate(adjoint(op))
        )
        return lambda: torch.matmul(left, right)
    return _transposed(torch, op) if op.kind == "TRANSPOSE_CONV" else _convolution(torch, op)


def _convolution(torch: Any, op: Op) -> Call:
    attrs = op.attrs
    assert isinstance(attrs, (Conv2DAttrs, DepthwiseConv2DAttrs))
    batch, height, width, channels = operand(op, 0).static_shape
    pads = window_of(op).pads(height, width)
    padded = (batch, channels, height + sum(pads[0]), width + sum(pads[1]))
    first, rows, columns, last = operand(op, 1).static_shape
    is_depthwise = op.kind == "DEPTHWISE_CONV_2D"
    filters, depth = (last, 1) if is_depthwise else (first, last)
    weights = _image(torch, (filters, depth, rows, columns))
    image, bias = _image(torch, padded), _random(torch, (filters,))
    strides, dilations, groups = attrs.strides, attrs.dilations, channels // depth
    return lambda: torch.nn.functional.conv2d(image, weights, bias, strides, 0, dilations, groups)


def _transposed(torch: Any, op: Op) -> Call:
    batch, height, width, channels = operand(op, 2).static_shape
    filters, rows, columns, _ = operand(op, 1).static_shape
    image = _image(torch, (batch, channels, height, width))
    weights = _image(torch, (channels, filters, rows, columns))
    strides = op.attributes(TransposeConvAttrs).strides
    return lambda: torch.nn.functional.conv_transpose2d(image, weights, None, strides)


def _image(torch: Any, sizes: Sequence[int]) -> Any:
    return _random(torch, sizes).contiguous(memory_format=torch.channels_last)


def _random(torch: Any, sizes: Sequence[int]) -> Any:
    assert prod(sizes) > 0
    return torch.randn(tuple(sizes), device="cuda")
