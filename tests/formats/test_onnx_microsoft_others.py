"""com.microsoft's operators that the standard took over later, and small ones of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.microsoft import Array, Case, check

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

_RNG = np.random.default_rng(23)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def long(*values: int) -> Array:
    return np.array(values, np.int64)


X, SQUARE, SIGNAL = some(3, 4), some(2, 4, 4), some(3, 8)
LARGE = np.array([1, np.inf, 2], np.float32)
MISSING = np.array([1, np.nan, 2], np.float32)
BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.1, 0.7, 1.3]], np.float32)
CROPS = [some(2, 3, 6, 5), BOXES, np.array([0, 1, 0], np.int32), np.array([4, 3], np.int32)]
_TRUE, _FALSE = np.array(True), np.array(False)
CASES = {
    "Pad": Case("Pad", [X, long(1, 0, 0, 2), np.array([3], np.float32)], constants=[1, 2]),
    "Pad by reflection": Case("Pad", [X, long(1, 0, 1, 2)], {"mode": "reflect"}, [1]),
    "Pad that cuts": Case("Pad", [X, long(1, -1, -2, 2)], constants=[1]),
    "Pad that only cuts": Case("Pad", [X, long(-1, 0, -1, -2)], constants=[1]),
    "Pad by reflection that cuts": Case("Pad", [X, long(0, -1, 1, 2)], {"mode": "reflect"}, [1]),
    "ExpandDims": Case("ExpandDims", [X, np.array(1, np.int32)], constants=[1]),
    "ExpandDims behind": Case("ExpandDims", [X, np.array(-1, np.int32)], constants=[1]),
    "Range": Case("Range", [np.array(n, np.float32) for n in (1, 9, 2)]),
    "Range of steps of one": Case("Range", [np.array([2], np.int32), np.array([6], np.int32)]),
    "GatherND": Case("GatherND", [X, np.array([[0, 1], [2, 3]], np.int64)]),
    "Trilu": Case("Trilu", [SQUARE]),
    "Trilu below": Case("Trilu", [SQUARE, np.array(1, np.int64)], {"upper": 0}, [1]),
    "Unique": Case(
        "Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], outputs=[True, True, True]
    ),
    "Inverse": Case("Inverse", [SQUARE], tolerance=1e-4),
    "GridSample": Case("GridSample", [some(1, 2, 4, 4), some(1, 3, 3, 2) * 0.5]),
    "GridSample of borders": Case(
        "GridSample",
        [some(1, 2, 4, 4), some(1, 3, 3, 2)],
        {"mode": "nearest", "padding_mode": "border", "align_corners": 1},
    ),
    "CropAndResize": Case("CropAndResize", CROPS, {"extrapolation_value": 7.0}, [3]),
    "CropAndResize, nearest": Case("CropAndResize", CROPS, {"mode": "nearest"}, [3]),
    "IsAllFinite": Case("IsAllFinite", [X, LARGE], expected=[_FALSE]),
    "IsAllFinite of numbers": Case("IsAllFinite", [X, X], expected=[_TRUE]),
    "IsAllFinite but infinities": Case(
        "IsAllFinite", [X, LARGE], {"isnan_only": 1}, expected=[_TRUE]
    ),
    "IsAllFinite but what is missing": Case(
        "IsAllFinite", [X, MISSING], {"isinf_only": 1}, expected=[_TRUE]
    ),
    "ComplexMul": Case(
        "ComplexMul",
        [np.array([[1, 2]], np.float32), np.array([[3, -1]], np.float32)],
        expected=[np.array([[5, 5]], np.float32)],
    ),
    "ComplexMulConj": Case(
        "ComplexMulConj",
        [np.array([[1, 2]], np.float32), np.array([[3, -1]], np.float32)],
        expected=[np.array([[1, 7]], np.float32)],
    ),
    "Rfft": Case(
        "Rfft",
        [SIGNAL],
        {"signal_ndim": 1, "onesided": 1, "normalized": 0},
        expected=[np.fft.rfft(SIGNAL).astype(np.complex64).view(np.float32).reshape(3, 5, 2)],
    ),
    "Irfft": Case(
        "Irfft",
        [np.fft.rfft(SIGNAL).astype(np.complex64).view(np.float32).reshape(3, 5, 2)],
        {"signal_ndim": 1, "onesided": 1, "normalized": 0},
        expected=[SIGNAL],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_what_onnx_runtime_gives(name: str) -> None:
    check(CASES[name])
