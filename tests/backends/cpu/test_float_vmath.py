"""Vector math and vector helpers against numpy in double precision, on every target."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import parse_target
from tests.backends.cpu.harness import AND_V3, runnable

Function = Callable[[np.ndarray], np.ndarray]
_EXPORT = '__attribute__((visibility("default"))) void'
_UNARY = (
    *("exp", "log", "tanh", "logistic", "sqrt", "rsqrt", "erf"),
    *("floor", "ceil", "trunc", "round_even", "round_away", "abs"),
)
_WIDE = ("sin", "cos")
_FALLING = ("exp_falling",)  # of numbers that are not positive
_SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 8388609, -1e30, 1e-40, 90],
    np.float32,
)


def _source() -> str:
    functions = [
        f"{_EXPORT} do_{name}(const float *from, float *to, int64_t count) {{\n"
        "    for (int64_t i = 0; i < count; i += CIRCLET_LANES)\n"
        f"        v_store(to + i, v_{name}(v_load(from + i)));\n"
        "}"
        for name in (*_UNARY, *_WIDE, *_FALLING)
    ]
    tail = f"{_EXPORT} do_tail(const float *from, float *to, int64_t count) {{\n"
    tail += "    v_store_n(to, v_load_n(from, count) + v_splat(1.0f), count);\n}"
    lanes = f"{_EXPORT} do_lanes(int32_t *to) {{ *to = CIRCLET_LANES; }}"
    return "\n".join(["#include <wide.h>", *functions, tail, lanes])


@lru_cache(maxsize=4)
def _image(target: str) -> bytes:
    return compile_unit(_source(), parse_target(target))


@pytest.fixture(params=AND_V3)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> ctypes.CDLL:
    if runnable(request.param) is None:
        pytest.skip(f"this CPU cannot run {request.param}")
    path = tmp_path / "unit.so"
    path.write_bytes(_image(request.param))
    return ctypes.CDLL(str(path))


def _apply(unit: ctypes.CDLL, name: str, values: np.ndarray) -> np.ndarray:
    padded = np.pad(values.astype(np.float32), (0, -len(values) % 16))
    result = np.empty_like(padded)
    function = getattr(unit, f"do_{name}")
    function(
        *(ctypes.c_void_p(a.ctypes.data) for a in (padded, result)), ctypes.c_int64(len(padded))
    )
    return result[: len(values)]


def _round_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_erf = np.vectorize(math.erf, otypes=[float])
_REFERENCE: dict[str, Function] = {
    "exp": np.exp,
    "exp_falling": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.round,
    "round_away": _round_away,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
}
_BOUNDS = {"exp": 2, "log": 2, "tanh": 6, "logistic": 5, "sqrt": 0.5, "rsqrt": 2, "erf": 6}
_BOUNDS |= {"sin": 2, "cos": 2, "exp_falling": 5}
_RANGES = {"exp": (-87, 88.7), "log": (1e-30, 1e4), "sqrt": (1e-30, 1e4), "rsqrt": (1e-30, 1e4)}
_RANGES |= {"sin": (-1e6, 1e6), "cos": (-1e6, 1e6), "exp_falling": (-87.3, 0)}


@pytest.mark.parametrize("name", _BOUNDS)
def test_function_keeps_its_stated_bound(unit: ctypes.CDLL, name: str) -> None:
    low, high = _RANGES.get(name, (-20, 20))
    random = np.random.default_rng(7)
    spread = random.uniform(low, high, 200_000)
    near = random.uniform(max(low, -2), min(high, 2), 200_000)
    values = np.concatenate([spread, near]).astype(np.float32)
    exact = _REFERENCE[name](values.astype(np.float64))
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    error = np.abs(_apply(unit, name, values) - exact) / ulp
    assert error.max() <= _BOUNDS[name] + 1e-6


@pytest.mark.parametrize("name", _UNARY)
def test_special_values_give_what_the_function_gives(unit: ctypes.CDLL, name: str) -> None:
    with np.errstate(all="ignore"):
        exact = _REFERENCE[name](_SPECIAL.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(_apply(unit, name, _SPECIAL), exact, rtol=4e-7, atol=1e-44)


@pytest.mark.parametrize("name", ["exp", "exp_falling"])
def test_powers_are_zero_or_normal_numbers(unit: ctypes.CDLL, name: str) -> None:
    smallest = np.finfo(np.float32).tiny
    powers = _apply(unit, name, np.linspace(-110, -87, 200_000, dtype=np.float32))
    assert np.all((powers == 0) | (powers >= smallest))
    assert powers[0] == 0 and powers[-1] > smallest and np.all(np.diff(powers) >= 0)


def test_falling_powers_of_special_values(unit: ctypes.CDLL) -> None:
    odd_nan = np.array([0x7F800001], np.uint32).view(np.float32)[0]
    values = np.array([0, -0.0, -np.inf, -1e9, -1e30, -88, np.nan, odd_nan], np.float32)
    wanted = np.array([1, 1, 0, 0, 0, 0, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(_apply(unit, "exp_falling", values), wanted)


def test_rounding_keeps_the_sign_of_zero(unit: ctypes.CDLL) -> None:
    values = np.full(16, -0.25, np.float32)
    assert np.signbit(_apply(unit, "round_even", values)).all()


def test_tails_touch_no_more_than_their_elements(unit: ctypes.CDLL) -> None:
    lanes = ctypes.c_int32()
    unit.do_lanes(ctypes.byref(lanes))
    for count in range(lanes.value):
        given, got = np.arange(16, dtype=np.float32), np.full(16, -7, np.float32)
        wanted = np.where(np.arange(16) < count, given + 1, -7)
        addresses = (ctypes.c_void_p(a.ctypes.data) for a in (given, got))
        unit.do_tail(*addresses, ctypes.c_int64(count))
        np.testing.assert_array_equal(got, wanted)
