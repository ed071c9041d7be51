"""Float kernels that read and write inside larger buffers: borders and concatenations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from tests.backends.cpu.harness import TARGETS, check_native, runnable
from tests.windows import conv2d_attrs, depthwise_attrs, transpose_conv_attrs

_IMAGE = (2, 9, 10, 6)
_random = np.random.default_rng(11)


def _conv(b: Builder, x: Tensor, filters: int, size: int, stride: int = 1) -> Tensor:
    depth = x.static_shape[3]
    scale = np.float32(1 / np.sqrt(size * size * depth))
    weights = _random.standard_normal((filters, size, size, depth)).astype(np.float32) * scale
    attrs = conv2d_attrs("SAME", stride, stride, "RELU")
    return b.op("CONV_2D", [x, b.constant("w", weights)], attrs)


def _depthwise(b: Builder, x: Tensor, dilation: int = 1) -> Tensor:
    weights = _random.standard_normal((1, 3, 3, x.static_shape[3])).astype(np.float32) / 3
    attrs = depthwise_attrs("SAME", 1, 1, 1, "RELU6", dilation, dilation)
    return b.op("DEPTHWISE_CONV_2D", [x, b.constant("w", weights)], attrs)


def _enlarged(b: Builder, x: Tensor) -> Tensor:
    batch, height, width, depth = x.static_shape
    weights = _random.standard_normal((5, 3, 3, depth)).astype(np.float32) / 6
    shape = b.constant("s", np.array([batch, 2 * height, 2 * width, 5], np.int32))
    attrs = transpose_conv_attrs("SAME", 2, 2)
    return b.op("TRANSPOSE_CONV", [shape, b.constant("w", weights), x], attrs)


def _mixed(b: Builder, x: Tensor) -> Tensor:
    """A buffer whose border suits a 3 x 3 window is also read by a point-wise convolution."""
    wide = _conv(b, x, 21, 1)
    parts = [_conv(b, wide, 13, 3), _conv(b, wide, 35, 1), _depthwise(b, wide)]
    return b.op("CONCATENATION", parts, ConcatenationAttrs(axis=3))


def _chained(b: Builder, x: Tensor) -> Tensor:
    return _conv(b, _depthwise(b, _depthwise(b, _conv(b, x, 24, 3), 2)), 9, 3, 2)


def _decoded(b: Builder, x: Tensor) -> Tensor:
    return _depthwise(b, _enlarged(b, _conv(b, x, 18, 3)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [_mixed, _chained, _decoded])
def test_kernels_agree_inside_larger_buffers(
    make: Callable[[Builder, Tensor], Tensor], target: str
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    b = builder()
    x = b.input("x", DType.FLOAT32, _IMAGE)
    graph: Graph = b.output(make(b, x)).build()
    image = _random.standard_normal(_IMAGE).astype(np.float32)
    check_native(graph, [image], target, threads=2)
