"""Einsum, TopK and gathers of every form run natively, as ONNX Runtime's do."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from tests.formats.microsoft import Array, Case, check, check_together, model, ours

pytest.importorskip("onnx", reason="the package onnx is not installed")

_RNG = np.random.default_rng(31)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def ints(low: int, high: int, *sizes: int) -> Array:
    return _RNG.integers(low, high, sizes).astype(np.int64)


def einsum(equation: str, *inputs: Array) -> Case:
    wanted = [np.einsum(equation, *inputs)]
    return Case("Einsum", inputs, {"equation": equation}, (), (True,), wanted, "", 1e-4)


def test_products_by_equations_are_native() -> None:
    cases = [
        einsum("bmd,bnd->bmn", some(2, 5, 7), some(2, 6, 7)),
        einsum("bhid,bhjd->bhij", some(1, 3, 5, 4), some(1, 3, 6, 4)),
        einsum("bnhd,hde->bne", some(2, 5, 3, 4), some(3, 4, 6)),
        einsum("nchw,cd->nhwd", some(1, 4, 3, 5), some(4, 6)),
        einsum("i,j->ij", some(4), some(5)),
        einsum("ij,ij->i", some(4, 6), some(4, 6)),
        einsum("abc->ca", some(2, 3, 4)),
        einsum("bij,jk", some(2, 3, 4), some(4, 5)),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_the_least_and_the_largest_along_any_axis_are_native() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    count, both = np.array([2]), (True, True)
    given = [{"axis": 1}, {"axis": 1, "largest": 0}, {"largest": 0}]
    cases = [Case("TopK", [some(3, 7, 5), count], g, [1], both, domain="") for g in given]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_gathers_by_elements_and_by_points_are_native() -> None:
    x = some(3, 4, 5)
    along, points = ints(-4, 4, 2, 6, 5), ints(-3, 3, 4, 2)
    rest = np.indices(along.shape)
    wanted = (x[rest[0], along, rest[2]], x[points[:, 0], points[:, 1]])
    cases = [
        Case("GatherElements", [x, along], {"axis": 1}, (), (True,), [wanted[0]], ""),
        Case("GatherND", [x, points], {}, (), (True,), [wanted[1]], ""),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
    (made,) = ours(model([cases[0]], is_open=True), cases[0].feeds(), ["reference"])
    np.testing.assert_array_equal(made, wanted[0])


@pytest.mark.parametrize(("count", "is_centred"), [(1000, 0), (20, 1)])
def test_boxes_are_suppressed_as_onnx_runtime_does_it(count: int, is_centred: int) -> None:
    """More boxes than are looked at together, with and without a least score."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    places, sizes = _RNG.uniform(0, 1, (2, 150, 2)), _RNG.uniform(0.1, 0.4, (2, 150, 2))
    ends = sizes if is_centred else places + sizes
    boxes = np.concatenate([places, ends], -1).astype(np.float32)
    scores = _RNG.uniform(0, 1, (2, 3, 150)).astype(np.float32)
    bars = [np.array([0.4], np.float32), np.array([0.2], np.float32)][: 1 + is_centred]
    given = [boxes, scores, np.array([count]), *bars]
    check(Case("NonMaxSuppression", given, {"center_point_box": is_centred}, domain=""))


def test_distinct_elements_are_native() -> None:
    """In both orders, of any rank and type, whichever of the results are read."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    every = (True, True, True, True)
    words = ints(-5, 5, 6, 7)
    cases = [
        Case("Unique", [np.round(some(3, 9))], {}, (), every, domain=""),
        Case("Unique", [words], {"sorted": 0}, (), every, domain=""),
        Case("Unique", [words.astype(np.int8)], {}, (), every[:2], domain=""),
        Case("Unique", [words[0]], {"axis": -1}, (), every, domain=""),
        Case("Unique", [words], {}, (), (True, False, True), domain=""),
        Case("Unique", [np.round(some(20))], {}, (), every[:3]),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
    sliced = Case("Unique", [words], {"axis": 0}, (), every, domain="")
    (row,) = Session(model([sliced]), cache=False).placement
    assert row["backend"] == "reference" and "slices along an axis" in str(row["refused"])


@pytest.mark.parametrize("rising", [0, 1])
def test_a_distinct_element_has_the_bits_of_the_first_of_its_equals(rising: int) -> None:
    bits = [0x80000000, 0, 0x7FC00001, 0xFFC00000, 1, 0x80000001, 0x7F800000, 0xFF800000, 1]
    x = np.array(bits, np.uint32).view(np.float32)
    case = Case("Unique", [x], {"sorted": rising}, (), (True, True, True, True), domain="")
    session = Session(model([case]), strict=True, cache=False)
    wanted = ours(model([case]), case.feeds(), ["reference"])
    for made, array in zip(session.run(case.feeds()).values(), wanted, strict=True):
        assert made.tobytes() == array.tobytes()
