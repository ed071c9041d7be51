"""Convolutions and poolings of every rank and grouping run natively, as ONNX Runtime's do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.microsoft import Array, Case, check, check_together, model, ours, theirs

pytest.importorskip("onnx", reason="the package onnx is not installed")
RUNTIME = "onnxruntime is not installed"

_RNG = np.random.default_rng(23)
VOLUME = (2, 4, 5, 6, 7)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def stored(*sizes: int, signed: bool = False) -> Array:
    low, high, dtype = (-128, 128, np.int8) if signed else (0, 256, np.uint8)
    return _RNG.integers(low, high, sizes).astype(dtype)


def of(kind: str, *inputs: Array, **attributes: object) -> Case:
    return Case(kind, inputs, attributes, range(1, len(inputs)), domain="", tolerance=1e-4)


def test_transposed_convolutions_of_groups_dilations_and_volumes_are_native() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    kind, pads, edges = "ConvTranspose", [1] * 4, [1] * 6
    grown = {"strides": [2, 2], "pads": pads, "output_padding": [1, 1]}
    volume = {"strides": [2] * 3, "pads": edges, "output_padding": [1, 0, 1]}
    cases = [
        of(kind, some(1, 4, 5, 6), some(4, 2, 3, 3), some(4), group=2, **grown),
        of(kind, some(1, 16, 5, 6), some(16, 1, 4, 4), group=16, strides=[2, 2], pads=pads),
        of(kind, some(1, 24, 5), some(24, 3, 4), some(36), group=12, strides=[2], pads=[1, 1]),
        of(kind, some(2, 4, 5, 6), some(4, 3, 3, 3), dilations=[2, 2], strides=[2, 1], pads=pads),
        of(kind, some(1, 4, 3, 5, 6), some(4, 3, 2, 2, 2), some(3), strides=[2, 2, 2]),
        of(kind, some(1, 4, 3, 5, 6), some(4, 3, 3, 3, 3), some(3), **volume),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_volumes_are_convolved_in_groups_and_pooled_natively() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    box = {"kernel_shape": [3, 3, 2], "strides": [2, 2, 2]}
    padded, edges = {**box, "pads": [1, 1, 0] * 2}, [1] * 6
    cases = [
        of("Conv", some(*VOLUME), some(4, 1, 3, 3, 3), some(4), group=4, pads=edges),
        of("Conv", some(*VOLUME), some(6, 2, 2, 3, 3), group=2, strides=[2, 1, 2]),
        of("MaxPool", some(*VOLUME), **padded),
        of("MaxPool", some(*VOLUME), **box, ceil_mode=1),
        of("MaxPool", stored(1, 3, 9, 8), kernel_shape=[3, 2], pads=[1, 0, 1, 0]),
        of("AveragePool", some(*VOLUME), **padded),
        of("AveragePool", some(*VOLUME), **padded, count_include_pad=1),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_places_of_the_largest_are_found_and_filled_natively() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    both = (True, True)

    def places(x: Array, **attributes: object) -> Case:
        return Case("MaxPool", (x,), attributes, (), both, domain="")

    pairs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    wide = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    image = np.round(2 * some(2, 3, 7, 8))  # many elements are equal: the first one counts
    found = theirs(model([places(image[:, :, :6], **pairs)]), {"i0": image[:, :, :6]})
    cases = [
        places(image, **pairs),
        places(image - 9, **wide),
        places(some(2, 19, 9, 5), **wide, storage_order=1),
        places(some(3, 5, 11), kernel_shape=[3], strides=[2], pads=[1, 1]),
        Case("MaxUnpool", found, pairs, domain=""),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_places_are_those_of_any_batch() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    attributes = {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}
    case = Case("MaxPool", (some(3, 2, 5, 4),), attributes, (), (True, True), domain="")
    check(case, ("cpu", "reference"), is_open=True)


def test_a_larger_unpooled_image_has_a_border_behind() -> None:
    x, at = np.array([[[[1, 2], [3, 4]]]], np.float32), np.array([[[[5, 7], [13, 15]]]])
    wanted = np.zeros((1, 1, 5, 5), np.float32)
    wanted[0, 0, 1, 1], wanted[0, 0, 1, 3], wanted[0, 0, 3, 1], wanted[0, 0, 3, 3] = 1, 2, 3, 4
    pairs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    given = (x, at, np.array([1, 1, 5, 5]))
    check(Case("MaxUnpool", given, pairs, (2,), expected=[wanted], domain=""), ("cpu",))


def test_integer_convolutions_of_constant_weights_are_native_and_exact() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    zero, kind = np.array(113, np.uint8), "ConvInteger"
    cases = [
        of(kind, stored(1, 8, 6, 7), stored(5, 8, 3, 3, signed=True), zero, pads=[1] * 4),
        of(kind, stored(1, 300, 6, 7), stored(5, 300, 3, 3, signed=True), zero, pads=[1] * 4),
        of(kind, stored(1, 8, 6, 7), stored(8, 1, 3, 3), zero, np.array(7, np.uint8), group=8),
        of(kind, stored(1, 8, 9), stored(5, 8, 3, signed=True), zero, strides=[2]),
        of(kind, stored(2, 8, 6, 7), stored(5, 8, 3, 3), zero, np.array(131, np.uint8)),
        of(kind, stored(1, 8, 9), stored(5, 8, 3), zero, np.array(90, np.uint8), pads=[1, 1]),
        of(kind, stored(1, 8, 6, 7), stored(5, 8, 2, 2, signed=True), auto_pad="SAME_UPPER"),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_a_transposed_volume_adds_the_filters_of_its_elements() -> None:
    """Two elements along the width, windows of three, two steps apart: they meet in the middle."""
    x = np.array([2, 5], np.float32).reshape(1, 1, 1, 1, 2)
    taps = np.array([1, 10, 100], np.float32).reshape(1, 1, 1, 1, 3)
    case = of("ConvTranspose", x, taps, strides=[1, 1, 2])
    for backends in (["reference"], ["cpu"]):
        (made,) = ours(model([case]), case.feeds(), backends)
        assert made.reshape(-1).tolist() == [2, 20, 205, 50, 500]


def test_poolings_of_powers_are_native() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    image, pair = some(1, 3, 7, 8), {"kernel_shape": [2, 3], "strides": [2, 1]}
    cases = [
        *(of("LpPool", image, **pair, pads=[0, 1, 1, 0], p=p) for p in (1, 2, 3)),
        of("LpPool", some(2, 4, 9), kernel_shape=[3], auto_pad="VALID"),
        *(of("GlobalLpPool", image, p=p) for p in (1, 2, 3)),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
