"""Native indexed reads and writes give what the records give, wherever indices point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.ir import DType, Quantization, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.gather import GatherAttrs
from circlet.ops.operands import limits
from circlet.ops.order import CumsumAttrs, OneHotAttrs, ReverseSequenceAttrs
from circlet.ops.scatter import SparseToDenseAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.backends.cpu.harness import run_native, runnable

TYPES = (DType.FLOAT32, DType.INT8, DType.INT64, DType.INT16)
NUMBERS = (*TYPES, DType.UINT8, DType.INT32)


def _indices(
    cases: Cases, shape: Sequence[int], low: int, high: int, dtype: type = np.int32
) -> Tensor:
    """Indices that are known at run time only; the range may lie outside the data."""
    random = np.random.default_rng(len(cases.inputs))
    return cases.given(random.integers(low, high, shape, dtype))


@each_target
def test_gathers_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        data = cases.data(dtype, (3, 4, 5, 6))
        for axis in (0, 1, 3):
            cases.op("GATHER", [data, _indices(cases, (2, 3), -2, 8)], GatherAttrs(axis))
        shared = _indices(cases, (3, 4, 2), 0, 5, np.int64)
        cases.op("GATHER", [data, shared], GatherAttrs(2, 2))
        cases.op("GATHER", [data, _indices(cases, (3, 2), 0, 5)], GatherAttrs(2, 1))
        cases.op("GATHER", [data, cases.constant(np.array(2, np.int32))], GatherAttrs(-1))
        for depth in (1, 2, 4):
            cases.op("GATHER_ND", [data, _indices(cases, (2, 7, depth), -1, 5)])
    fixed = cases.constant(np.arange(40, dtype=np.float32).reshape(10, 4))
    cases.op("EMBEDDING_LOOKUP", [_indices(cases, (7,), -1, 12), fixed], dtype=DType.FLOAT32)
    cases.check(target, threads=2)


@each_target
def test_integer_tables_are_looked_up_as_floats(target: str) -> None:
    cases = Cases()
    for dtype in (np.int8, np.uint8):
        values = np.arange(-20, 20).astype(dtype).reshape(10, 4)
        scales = np.linspace(0.1, 2, 10).astype(np.float32)
        for quant in (
            Quantization.per_tensor(0.5, 0),
            Quantization.per_channel(scales, 0),
        ):
            table = cases.constant(values, quant)
            cases.op("EMBEDDING_LOOKUP", [_indices(cases, (7,), 0, 10), table], dtype=DType.FLOAT32)
    cases.check(target)


@each_target
def test_scatters_equal_the_record(target: str) -> None:
    cases = Cases()
    sizes = cases.constant(np.array((4, 3, 5), np.int32))
    for dtype in NUMBERS:
        updates = cases.data(dtype, (6, 5))
        cases.op("SCATTER_ND", [_indices(cases, (6, 2), -1, 4), updates, sizes], dtype=dtype)
        if dtype is DType.INT16:
            continue
        values, one = cases.data(dtype, (6,)), cases.data(dtype, ())
        for given in (values, one):
            inputs = [_indices(cases, (6, 3), -1, 5), sizes, given, one]
            cases.op("SPARSE_TO_DENSE", inputs, SparseToDenseAttrs(), dtype=dtype)
    cases.check(target)


@each_target
def test_updates_are_placed_within_the_data(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        data, update = cases.data(dtype, (2, 6, 3, 5)), cases.data(dtype, (1, 2, 3, 4))
        for starts in ((0, 0, 0, 0), (1, 3, 0, 1), (-5, 9, 2, 7)):
            where = cases.given(np.array(starts, np.int32))
            cases.op("DYNAMIC_UPDATE_SLICE", [data, update, where])
    cases.check(target, threads=2)


@each_target
def test_one_hots_equal_the_record(target: str) -> None:
    cases = Cases()
    depth = cases.constant(np.array(4, np.int32))
    for dtype in NUMBERS:
        on, off = cases.data(dtype, ()), cases.data(dtype, ())
        for axis in (-1, 0, 1):
            inputs = [_indices(cases, (2, 3), -1, 6), depth, on, off]
            cases.op("ONE_HOT", inputs, OneHotAttrs(axis), dtype=dtype)
    cases.check(target)


@each_target
def test_large_one_hots_equal_the_record(target: str) -> None:
    """Rows that a task does several of, and rows that several tasks share."""
    cases = Cases()
    for dtype, depth in ((DType.FLOAT32, 257), (DType.INT8, 5), (DType.INT64, 3000)):
        on, off = cases.data(dtype, ()), cases.data(dtype, ())
        size = cases.constant(np.array(depth, np.int32))
        for axis in (-1, 0, 1):
            inputs = [_indices(cases, (3, 50), -1, depth + 1), size, on, off]
            cases.op("ONE_HOT", inputs, OneHotAttrs(axis), dtype=dtype)
    cases.check(target, threads=2)


@each_target
def test_gathered_elements_equal_the_record(target: str) -> None:
    """By lanes where elements and indices have 4 bytes, one by one behind the last whole vector."""
    cases = Cases()
    for dtype in (DType.FLOAT32, DType.INT32, DType.INT8):
        for count in (1, 7, 16, 35):
            data = cases.data(dtype, (3, 40))
            cases.op("GATHER", [data, _indices(cases, (count,), 0, 40)], GatherAttrs(1))
    cases.check(target)


@each_target
def test_choices_equal_the_record(target: str) -> None:
    cases = Cases()
    random = np.random.default_rng(0)
    for dtype in TYPES:
        quant = None if dtype.is_float else QUANT
        for shapes in (
            ((2, 3, 17, 5), (2, 3, 17, 5), (2, 3, 17, 5)),
            ((3, 1, 1), (2, 1, 17, 5), (5,)),
            ((1,), (1,), (7,)),
            ((4, 70), (), (4, 70)),
        ):
            condition = cases.given(random.integers(0, 2, shapes[0]).astype(bool))
            sides = [cases.data(dtype, shape) for shape in shapes[1:]]
            cases.op("SELECT_V2", [condition, *sides], dtype=dtype, quant=quant)
        rows = cases.given(np.array([True, False, True]))
        sides = [cases.data(dtype, (3, 4, 5)) for _ in range(2)]
        cases.op("SELECT", [rows, *sides], dtype=dtype)
    cases.check(target, threads=2)


@each_target
def test_running_sums_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in (DType.FLOAT32, DType.INT32, DType.INT64):
        data = cases.data(dtype, (3, 5, 57))
        for axis in (0, 1, -1):
            for exclusive in (False, True):
                for reverse in (False, True):
                    where = cases.constant(np.array(axis, np.int32))
                    cases.op("CUMSUM", [data, where], CumsumAttrs(exclusive, reverse))
    cases.check(target, threads=2)


@each_target
def test_largest_elements_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in NUMBERS:
        values = np.random.default_rng(1).integers(0, 9, (3, 40)).astype(dtype.numpy)
        for kept, index in ((1, DType.INT32), (7, DType.INT16), (40, DType.INT32)):
            made = [Tensor(f"{kept}", dtype, (3, kept)), Tensor(f"at{kept}", index, (3, kept))]
            count = cases.constant(np.array(kept, np.int32))
            cases.builder.op_many("TOPK_V2", [cases.given(values), count], made)
            cases.outputs.extend(made)
    cases.check(target, threads=2)


@each_target
def test_many_of_the_largest_elements_equal_the_record(target: str) -> None:
    cases = Cases()
    random = np.random.default_rng(1)
    for dtype in NUMBERS:
        values = random.integers(0, 40, (2, 300)).astype(dtype.numpy)
        data = cases.given(values)
        for kept, index in ((33, DType.INT16), (150, DType.INT32), (300, DType.INT32)):
            made = [Tensor(f"{kept}", dtype, (2, kept)), Tensor(f"at{kept}", index, (2, kept))]
            count = cases.constant(np.array(kept, np.int32))
            cases.builder.op_many("TOPK_V2", [data, count], made)
            cases.outputs.extend(made)
    cases.check(target, threads=2)


def orders(dtype: DType) -> Cases:
    """Rows that are cut down often or never, with ties, in either order, and of what is extreme."""
    cases, random, count = Cases(), np.random.default_rng(2), 3001
    mixed = cases.values(dtype, (count,))
    low, high = (-np.inf, np.inf) if dtype.is_float else limits(dtype)
    rows = [mixed, np.sort(mixed), np.sort(mixed)[::-1], np.full(count, mixed[0])]
    rows += [random.choice(np.array(some, dtype.numpy), count) for some in ([low, high], [0, 1, 5])]
    if dtype.is_float:
        rows += [random.choice(some, count) for some in ([0.0, -0.0], [np.nan, 3.0, -np.inf])]
        rows += [np.append(np.full(count - 9, np.nan), random.standard_normal(9))]
    data = cases.given(np.array(rows).astype(dtype.numpy))
    for kept in (1, 20, 32, 33, 700, 1400, count):
        shape = (len(rows), kept)
        made = [Tensor(f"{kept}", dtype, shape), Tensor(f"at{kept}", DType.INT32, shape)]
        wanted = cases.constant(np.array(kept, np.int32))
        cases.outputs.extend(cases.builder.op_many("TOPK_V2", [data, wanted], made))
    return cases


@each_target
@pytest.mark.parametrize("dtype", [*NUMBERS, DType.FLOAT64], ids=lambda dtype: dtype.name)
def test_the_largest_are_in_order_whatever_order_rows_have(dtype: DType, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = orders(dtype)
    graph = cases.graph()
    results = run_native(graph, cases.inputs, chosen, threads=2)
    for got, wanted in zip(results, evaluate_graph(graph, cases.inputs), strict=True):
        np.testing.assert_array_equal(got, wanted)


@each_target
def test_reversed_sequences_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for sequence, batch in ((1, 0), (0, 1), (2, 0), (0, 3)):
            data = cases.data(dtype, (3, 4, 5, 6))
            lengths = _indices(cases, (data.static_shape[batch],), -2, 9, np.int64)
            attrs = ReverseSequenceAttrs(sequence, batch)
            cases.op("REVERSE_SEQUENCE", [data, lengths], attrs)
    cases.check(target, threads=2)


@each_target
def test_places_of_computed_starts_equal_the_record(target: str) -> None:
    cases, steps = Cases(), (np.ones(count, np.int32) for count in (1, 2, 3))
    for step, dtype, place in zip(steps, TYPES, (2, -1, 0), strict=False):
        axis = step.size - 1
        starts = np.zeros_like(step)
        starts[axis] = place
        masks = (1 << axis) - 1
        attrs = StridedSliceAttrs(masks, masks, shrink_axis_mask=1 << axis)
        inputs = [
            cases.data(dtype, (3, 4, 5, 6)),
            cases.given(starts),
            cases.given(starts + 1),
            cases.constant(step),
        ]
        cases.op("STRIDED_SLICE", inputs, attrs)
    cases.check(target, threads=2)


@each_target
def test_windows_from_computed_starts_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype, shape, starts, sizes in (
        (DType.FLOAT32, (3, 4, 5, 6), (1, 0, 2, 3), (2, 4, 3, 3)),
        (DType.INT8, (7, 33), (2, 0), (4, 33)),
        (DType.INT64, (9,), (8,), (1,)),
        (DType.INT16, (2, 3, 2, 2, 3, 2), (1, 0, 1, 0, 2, 1), (1, 3, 1, 2, 1, 1)),
    ):
        begin = cases.given(np.array(starts, np.int32))
        lengths = cases.constant(np.array(sizes, np.int32))
        cases.op("SLICE", [cases.data(dtype, shape), begin, lengths])
    cases.check(target, threads=2)
