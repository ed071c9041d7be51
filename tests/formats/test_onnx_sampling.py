"""Images sampled on grids run natively, as ONNX Runtime's do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.formats.microsoft import Array, Case, check_together

pytest.importorskip("onnx", reason="the package onnx is not installed")

_RNG = np.random.default_rng(41)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def sampled(mode: str, padding: str, aligned: int, sizes: tuple[int, ...] = (2, 3, 5, 6)) -> Case:
    """Points of which a third lies outside of the image, as far as twice its size away."""
    grid = _RNG.uniform(-1.5, 1.5, (sizes[0], 4, 7, 2)).astype(np.float32)
    grid[0, 0] *= 3
    given = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    return Case("GridSample", [some(*sizes), grid], given, domain="")


def test_every_mode_and_padding_is_native() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    modes, paddings = ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection")
    cases = [sampled(*form) for form in product(modes, paddings, (0, 1))]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}


def test_images_and_points_at_the_edge_are_sampled_natively() -> None:
    """One channel, one pixel; points at corners, and farther away than integers reach."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    thin, single = (3, 1, 8, 5), (1, 4, 1, 1)
    cases = [sampled("bilinear", "zeros", 1, thin), sampled("bilinear", "border", 0, thin)]
    cases += [sampled("bilinear", padding, 0, single) for padding in ("zeros", "reflection")]
    far = np.array([-1, 1, 0, -1, 1e12, 0, -1e12, 1, 0.5, -0.5], np.float32).reshape(1, 1, 5, 2)
    given = {"padding_mode": "zeros", "align_corners": 1}
    cases.append(Case("GridSample", [some(1, 2, 4, 4), far], given, domain=""))
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
