"""Fourier transforms of known length run natively."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.microsoft import Array, Case, check_together, model, ours

pytest.importorskip("onnx", reason="the package onnx is not installed")

_RNG = np.random.default_rng(29)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def case(kind: str, inputs: list[Array | None], wanted: Array, **attributes: object) -> Case:
    constants = [at for at in range(1, len(inputs)) if inputs[at] is not None]
    return Case(kind, inputs, attributes, constants, (True,), [wanted], "", 1e-5)


def number(value: int) -> Array:
    return np.array(value, np.int64)


REAL, COMPLEX = some(2, 12, 5, 1), some(2, 12, 5, 2)
WAVE, WINDOW = some(2, 64, 1), np.hanning(16).astype(np.float32)
_AS_COMPLEX = COMPLEX[..., 0] + 1j * COMPLEX[..., 1]
_FRAMES = np.stack([WAVE[:, at : at + 16, 0] for at in range(0, 49, 4)], 1)
CASES = (
    case("DFT", [REAL], pairs(np.fft.fft(REAL[..., 0], axis=1))),
    case("DFT", [REAL], pairs(np.fft.rfft(REAL[..., 0], axis=2)), axis=2, onesided=1),
    case("DFT", [REAL, number(9)], pairs(np.fft.fft(REAL[..., 0], 9, 1))),
    case("DFT", [COMPLEX], pairs(np.fft.fft(_AS_COMPLEX, axis=1))),
    case("STFT", [WAVE, number(4), WINDOW], pairs(np.fft.rfft(_FRAMES * WINDOW))),
    case("STFT", [WAVE, number(4), None, number(16)], pairs(np.fft.rfft(_FRAMES))),
)


def test_transforms_are_native_and_equal_numpys() -> None:
    session = check_together(CASES)
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_frames_of_a_signal_of_open_length_follow_from_what_it_is_given() -> None:
    (made,) = ours(model([CASES[4]], is_open=True), CASES[4].feeds(), ["reference"])
    wanted = CASES[4].expected
    assert wanted is not None
    np.testing.assert_allclose(made, wanted[0], atol=1e-4)
