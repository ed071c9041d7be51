"""Kernels read and write tensors inside bordered buffers and inside concatenations."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.resize import ResizeAttrs
from tests.backends.cpu.cases import Cases, Network, SideBySide, each_target
from tests.windows import conv2d_attrs, pool_attrs

CHANNELS = 19


def _ints(cases: Cases, *values: int) -> Tensor:
    return cases.constant(np.array(values, np.int32))


def _made(cases: Cases, kind: str, x: Tensor) -> Tensor:
    """A 6 x 7 image made by an op of the kind from another."""
    if kind == "RESIZE_BILINEAR":
        return cases.op(kind, [x, _ints(cases, 6, 7)], ResizeAttrs())
    if kind == "RESIZE_NEAREST_NEIGHBOR":
        return cases.op(kind, [x, _ints(cases, 6, 7)], ResizeAttrs())
    if kind == "TRANSPOSE":
        return cases.op(kind, [x, _ints(cases, 0, 1, 2, 3)])
    if kind == "PAD":
        cut = cases.op("MAX_POOL_2D", [x], pool_attrs("VALID", 1, 1, 3, 2))
        amounts = cases.constant(np.array(((0, 0), (1, 0), (0, 2), (0, 0)), np.int32))
        return cases.op(kind, [cut, amounts])
    if kind == "CONCATENATION":
        parts = [cases.data(DType.FLOAT32, (1, 6, 7, size)) for size in (3, CHANNELS - 3)]
        return cases.op(kind, parts, ConcatenationAttrs(3))
    if kind == "ADD":
        return cases.op(kind, [x, x], AddAttrs())
    if kind.endswith("POOL_2D"):
        return cases.op(kind, [x], pool_attrs("SAME", 1, 1, 3, 3))
    return cases.op(kind, [x])


KINDS = [
    "ADD",
    "AVERAGE_POOL_2D",
    "MAX_POOL_2D",
    "LOGISTIC",
    "RELU",
    "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR",
    "TRANSPOSE",
    "PAD",
    "CONCATENATION",
]


def _read_by_all(kind: str) -> Network:
    """An image that an op of the kind makes, which ops of all kinds read."""
    cases = Cases()
    image = _made(cases, kind, cases.data(DType.FLOAT32, (1, 6, 7, CHANNELS)))
    cases.outputs.clear()
    weights = cases.constant(cases.values(DType.FLOAT32, (4, 3, 3, CHANNELS), 0.1))
    bias = cases.constant(cases.values(DType.FLOAT32, (4,)))
    cases.op("CONV_2D", [image, weights, bias], conv2d_attrs("SAME", 1, 1))
    cases.op("MEAN", [image, _ints(cases, 1, 2)], ReducerAttrs())
    cases.op("MEAN", [image, _ints(cases, 0, 1, 2, 3)], ReducerAttrs())
    readers = [reader for reader in KINDS if reader != "CONCATENATION"]
    results = [_made(cases, reader, image) for reader in readers]
    cases.op("CONCATENATION", [*results, image], ConcatenationAttrs(3))
    return cases.graph(), cases.inputs


READ_BY_ALL = SideBySide(KINDS, _read_by_all, threads=2)


@each_target
@pytest.mark.parametrize("kind", KINDS)
def test_results_land_inside_borders_and_are_read_there(kind: str, target: str) -> None:
    READ_BY_ALL.check(kind, target)


@each_target
def test_stored_images_inside_concatenations(target: str) -> None:
    cases = Cases()
    data = cases.data(DType.INT8, (2, 6, 7, CHANNELS))
    quant = data.quant
    average = cases.op("AVERAGE_POOL_2D", [data], pool_attrs("SAME", 1, 1, 3, 3), quant=quant)
    total = cases.op("ADD", [data, average], AddAttrs(), quant=quant)
    positive = cases.op("RELU", [total], quant=quant)
    cases.outputs.clear()
    joined = cases.op("CONCATENATION", [average, positive], ConcatenationAttrs(3), quant=quant)
    cases.outputs.clear()
    cases.op("MAX_POOL_2D", [joined], pool_attrs("VALID", 2, 2, 2, 2), quant=quant)
    cases.check(target, threads=2)
