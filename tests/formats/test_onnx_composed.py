"""Operators that are a few element-wise ones and sums here run natively, as ONNX Runtime's do."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from tests.formats.microsoft import Array, Case, check_together, model

pytest.importorskip("onnx", reason="the package onnx is not installed")
RUNTIME = "onnxruntime is not installed"
_RNG = np.random.default_rng(29)


def some(*sizes: int) -> Array:
    return (3 * _RNG.normal(size=sizes)).astype(np.float32)


def of(kind: str, *inputs: Array, **attributes: object) -> Case:
    return Case(kind, inputs, attributes, domain="")


def held_natively(*cases: Case) -> None:
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_exponential_units_of_any_factor_are_native() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    x = np.append(some(2, 33).reshape(-1), np.array([0, 88, -88, 3e38, -3e38], np.float32))
    units = [of(kind, x, alpha=alpha) for kind in ("Elu", "Celu") for alpha in (0.5, 1.0, 3.0)]
    held_natively(*units, of("Selu", x))


def test_remainders_of_the_dividend_s_sign_are_native_and_exact() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    x = np.array([5.5, -5.5, 5.5, -5.5, 3e38, -3e38, 1e-38, -7, 0, np.inf, 1, np.nan], np.float32)
    y = np.array([2, 2, -2, -2, 0.7, 1e-30, 3, 7, 4, 2, np.inf, 1], np.float32)
    x, y = np.append(x, 1e3 * some(50)), np.append(y, some(50))
    x, y = x.astype(np.float32), y.astype(np.float32)
    held_natively(of("Mod", x, y, fmod=1), of("Mod", y, x, fmod=1))


def test_logarithms_of_summed_powers_are_native_and_do_not_overflow() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    x = some(3, 4, 37)
    ends = np.array([[1, -np.inf, 2], [-np.inf, -np.inf, -np.inf]], np.float32)
    kind = "ReduceLogSumExp"
    held_natively(
        of(kind, x, axes=[2], keepdims=0),
        of(kind, x, axes=[0, 1]),
        of(kind, 100 * x),
        of(kind, ends, axes=[-1]),
    )


def test_elements_over_their_norm_are_native() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    x, kind = some(3, 5, 18), "LpNormalization"
    x[1] = 0
    held_natively(of(kind, x, p=2), of(kind, x, p=1), of(kind, x, p=2, axis=1), of(kind, x, axis=0))


def test_mish_is_native_and_exact_at_both_ends() -> None:
    ends = np.array([0, -0.0, 19.9, 20.1, 88, -88, -30, 3e38, -3e38], np.float32)
    cases = [of("Mish", some(3, 33)), of("Mish", ends)]
    session = Session(model(cases, 18), backends=("cpu",), strict=True)
    got = session.run({f"n{at}_i0": case.inputs[0] for at, case in enumerate(cases)})
    for case, y in zip(cases, got.values(), strict=True):
        x = np.asarray(case.inputs[0], np.float64)
        wanted = x * np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))
        np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-30)


def test_triangles_are_native() -> None:
    pytest.importorskip("onnxruntime", reason=RUNTIME)
    x, whole = some(2, 5, 7), np.arange(12).reshape(3, 4)
    held_natively(
        of("Trilu", x),
        of("Trilu", x, np.array(-2), upper=1),
        of("Trilu", x, np.array(1), upper=0),
        of("Trilu", whole, upper=0),
        of("Trilu", whole > 3),
    )
