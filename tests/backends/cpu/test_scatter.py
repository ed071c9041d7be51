"""Scatters of ONNX give what their records give, natively and in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from tests.backends.cpu.cases import Cases, each_target

_INDEX = (np.int32, np.int64)


def scattered(
    cases: Cases,
    kind: str,
    data: Tensor,
    indices: np.ndarray,
    sizes: Sequence[int],
    **given: object,
) -> None:
    """A scatter into data, of updates of some sizes, at indices that only a run knows."""
    updates = cases.data(data.dtype, sizes)
    attrs = OnnxAttrs(tuple(sorted(given.items())), 18)
    operands = [data, cases.given(indices), updates]
    code = f"{PREFIX}{kind}"
    cases.outputs.append(
        cases.builder.op("CUSTOM", operands, attrs, dtype=data.dtype, custom_code=code)
    )


def vectors(cases: Cases, dtype: DType, how: str, index: type = np.int64) -> None:
    """Index vectors of every length, some of which point outside, from the front and the end."""
    random = np.random.default_rng(7)
    for depth in (1, 2, 3):
        data = cases.data(dtype, (4, 5, 6))
        indices = random.integers(-6, 6, (3, 4, depth), index)
        scattered(cases, "ScatterND", data, indices, (3, 4, *(5, 6)[depth - 1 :]), reduction=how)


def elements(cases: Cases, dtype: DType, how: str, index: type = np.int64) -> None:
    """Indices along each axis, those of the last case repeated along rows."""
    random = np.random.default_rng(8)
    for axis in (0, 1, -1):
        data = cases.data(dtype, (4, 5, 6))
        indices = random.integers(-7, 7, (3, 5, 4), index)
        given = {"axis": axis, "reduction": how}
        scattered(cases, "ScatterElements", data, indices, indices.shape, **given)
    data, rows = cases.data(dtype, (9, 40)), random.integers(0, 9, (30, 1), index)
    repeated = np.repeat(rows, 40, 1)
    scattered(cases, "ScatterElements", data, repeated, repeated.shape, reduction=how)


@each_target
def test_scatters_equal_the_record(target: str) -> None:
    cases = Cases()
    for how in ("none", "add", "mul", "max", "min"):
        vectors(cases, DType.FLOAT32, how)
        elements(cases, DType.FLOAT32, how)
    cases.check(target, threads=2)


@each_target
def test_whole_numbers_and_flags_are_scattered(target: str) -> None:
    cases = Cases()
    for dtype in (DType.INT64, DType.INT32, DType.INT8, DType.UINT8):
        for how in ("none", "add", "max"):
            vectors(cases, dtype, how, np.int32)
            elements(cases, dtype, how, np.int32)
    flags = cases.given(np.zeros((4, 5), np.bool_))
    where, on = cases.given(np.array([[1, 2], [-1, 0]])), cases.given(np.ones(2, np.bool_))
    attrs, code = OnnxAttrs((), 18), f"{PREFIX}ScatterND"
    operands = [flags, where, on]
    cases.outputs.append(
        cases.builder.op("CUSTOM", operands, attrs, dtype=DType.BOOL, custom_code=code)
    )
    cases.check(target)


@each_target
def test_what_nothing_else_reads_is_updated_where_it_lies(target: str) -> None:
    """Data that are computed for one scatter, and data that another op reads too."""
    cases = Cases()
    for is_shared in (False, True):
        x = cases.data(DType.FLOAT32, (6, 8))
        half = cases.builder.op("MUL", [x, cases.constant(np.float32(0.5))])
        indices = np.array([[0], [5], [0]])
        scattered(cases, "ScatterND", half, indices, (3, 8), reduction="add")
        if is_shared:
            cases.op("NEG", [half])
    cases.check(target)
