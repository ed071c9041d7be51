"""Native moves of elements give what the records give."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.errors import PlacementError
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.plan.partition import partition
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.windows import pool_attrs

TYPES = (DType.FLOAT32, DType.INT8, DType.INT64, DType.INT16)


def _ints(cases: Cases, values: npt.ArrayLike) -> Tensor:
    return cases.constant(np.asarray(values, np.int32))


@each_target
def test_transposes_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        data = cases.data(dtype, (2, 3, 17, 70))
        for order in permutations(range(4)):
            cases.op("TRANSPOSE", [data, _ints(cases, order)])
    wide = cases.data(DType.FLOAT32, (2, 3, 2, 3, 2, 5))
    cases.op("TRANSPOSE", [wide, _ints(cases, (5, 0, 3, 1, 4, 2))])
    cases.check(target, threads=2)


@each_target
def test_matrices_are_transposed_by_whole_lines(target: str) -> None:
    """With rows of whole blocks, and with last blocks that overlap those before them."""
    cases = Cases()
    for dtype in (DType.FLOAT32, DType.INT32):
        for rows, columns in ((16, 16), (48, 200), (64, 1024), (79, 130), (200, 24)):
            data = cases.data(dtype, (rows, columns))
            cases.op("TRANSPOSE", [data, _ints(cases, (1, 0))])
    cases.check(target, threads=2)


@each_target
def test_matrices_whose_rows_meet_in_a_cache_are_transposed_through_a_tile(target: str) -> None:
    """Pieces of the tile end at every place of a block, of the columns and of the rows."""
    cases = Cases()
    for rows in (256, 513, 1023, 1024, 1025, 1040):
        for columns in (9, 15, 16, 17, 24, 31, 47, 130):
            data = cases.data(DType.FLOAT32, (rows, columns))
            cases.op("TRANSPOSE", [data, _ints(cases, (1, 0))])
    image = cases.data(DType.INT32, (2, 32, 32, 19))
    cases.op("TRANSPOSE", [image, _ints(cases, (0, 3, 1, 2))])
    cases.check(target, threads=2)


@pytest.mark.parametrize(
    "stack, rows, columns, target, through",
    [
        (1, 1024, 64, "x86_64_v3", True),
        (1, 1025, 64, "x86_64_v3", True),
        (1, 256, 64, "x86_64_v3", True),
        (1, 1024, 17, "x86_64_v3", True),
        (1, 1024, 1024, "x86_64_v3", True),
        (2, 1024, 1024, "x86_64_v3", False),
        (1, 1024, 8, "x86_64_v3", False),
        (1, 1040, 64, "x86_64_v3", False),
        (1, 257, 64, "x86_64_v3", False),
        (1, 64, 1024, "x86_64_v3", False),
        (1, 1024, 64, "x86_64_v4", True),
    ],
)
def test_near_rows_a_power_of_two_apart_go_through_a_tile(
    stack: int, rows: int, columns: int, target: str, through: bool
) -> None:
    cases = Cases()
    data = cases.data(DType.FLOAT32, (stack, rows, columns))
    cases.op("TRANSPOSE", [data, _ints(cases, (0, 2, 1))])
    graph = cases.graph()
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    (call,) = compile_partition(whole, parse_target(target), 1).calls
    assert call is not None
    assert (call.kernel.arguments[1] == 2, call.scratch_bytes > 0) == (through, through)


@each_target
def test_planes_of_few_channels_are_woven_and_taken_apart(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for few in (2, 3, 4, 5, 13):
            for many in (3, 17, 2503):
                planes = cases.data(dtype, (2, few, many))
                pixels = cases.data(dtype, (2, many, few))
                cases.op("TRANSPOSE", [planes, _ints(cases, (0, 2, 1))])
                cases.op("TRANSPOSE", [pixels, _ints(cases, (0, 2, 1))])
    cases.check(target, threads=2)


@each_target
def test_rows_of_a_few_bytes_are_transposed_as_elements(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for few in (1, 2, 3, 4, 8):
            for rows in (3, 37):
                data = cases.data(dtype, (2, rows, 21, few))
                cases.op("TRANSPOSE", [data, _ints(cases, (0, 2, 1, 3))])
    cases.check(target, threads=2)


@each_target
def test_planes_are_woven_between_the_rows_of_a_border(target: str) -> None:
    cases = Cases()
    for size in (5, 37):
        planes = cases.data(DType.FLOAT32, (1, 3, size, size))
        image = cases.op("TRANSPOSE", [planes, _ints(cases, (0, 2, 3, 1))])
        cases.outputs.clear()
        padded = cases.op("PAD", [image, _ints(cases, ((0, 0), (1, 1), (2, 1), (0, 0)))])
        cases.outputs.clear()
        cases.op("MAX_POOL_2D", [padded], pool_attrs("VALID", 1, 1, 3, 3))
    cases.check(target, threads=2)


@each_target
def test_padding_equals_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for shape, amounts in (
            ((2, 5, 7, 3), ((0, 0), (1, 2), (3, 0), (0, 0))),
            ((1, 4, 4, 33), ((0, 1), (0, 0), (0, 0), (2, 5))),
            ((9,), ((4, 70),)),
            ((2, 3, 1, 2, 3), ((1, 0), (0, 1), (1, 1), (0, 0), (0, 2))),
            ((3, 4), ((0, 0), (0, 0))),
        ):
            cases.op("PAD", [cases.data(dtype, shape), _ints(cases, amounts)], quant=QUANT)
        value = cases.constant(np.array([7], dtype.numpy), None if dtype.is_float else QUANT)
        source = cases.data(dtype, (1, 5, 7, 3))
        cases.op("PADV2", [source, _ints(cases, ((0, 0), (1, 2), (3, 0), (0, 4))), value])
    cases.check(target, threads=2)


@each_target
def test_concatenation_equals_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for axis in (0, 1, 2, 3, -1):
            parts = []
            for size in (3, 1, 40):
                shape = [2, 3, 4, 5]
                shape[axis] = size
                parts.append(cases.data(dtype, shape))
            quant = None if dtype.is_float else QUANT
            cases.op("CONCATENATION", parts, ConcatenationAttrs(axis), quant=quant)
    cases.check(target, threads=2)


@each_target
def test_uint8_concatenation_rescales_parts(target: str) -> None:
    cases = Cases()
    every = np.arange(256, dtype=np.uint8).reshape(1, 2, 2, 64)
    parts = [
        cases.given(every, Quantization.per_tensor(scale, zero))
        for scale, zero in ((0.05, 3), (0.02, 128), (0.1, 250))
    ]
    out = Quantization.per_tensor(0.05, 3)
    cases.op("CONCATENATION", parts, ConcatenationAttrs(3), quant=out)
    cases.check(target)


@each_target
def test_concatenation_of_computed_and_constant_parts(target: str) -> None:
    cases = Cases()
    data = cases.data(DType.FLOAT32, (1, 6, 6, 5))
    pooled = [
        cases.op(kind, [data], pool_attrs("SAME", 1, 1, 3, 3))
        for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
    ]
    cases.outputs.clear()
    fixed = cases.constant(cases.values(DType.FLOAT32, (1, 6, 6, 2)))
    joined = cases.op("CONCATENATION", [pooled[0], fixed, pooled[1]], ConcatenationAttrs(3))
    cases.outputs.clear()
    halved = cases.op("AVERAGE_POOL_2D", [joined], pool_attrs("VALID", 2, 2, 2, 2))
    cases.op("LOGISTIC", [halved])
    cases.check(target)


@each_target
def test_reshapes_of_inputs_are_copied_to_outputs(target: str) -> None:
    cases = Cases()
    data = cases.data(DType.INT8, (2, 3, 35))
    shaped = cases.op("RESHAPE", [data], ReshapeAttrs((6, -1)), quant=QUANT)
    cases.op("RESHAPE", [shaped], ReshapeAttrs((210,)), quant=QUANT)
    cases.check(target)


def test_computed_permutations_are_refused_with_the_reason() -> None:
    cases = Cases()
    order = cases.given(np.array([1, 0], np.int32))
    cases.op("TRANSPOSE", [cases.data(DType.FLOAT32, (2, 3)), order])
    cases.outputs[0].shape = (3, 2)
    graph = cases.graph()
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    with pytest.raises(PlacementError, match="permutation is not constant"):
        compile_partition(whole, parse_target("native"), 1)
