"""com.microsoft's activations, products and normalisations against ONNX Runtime."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest

from circlet.errors import UnsupportedOpsError
from tests.formats.microsoft import Array, Case, check, check_together, model, ours

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

_RNG = np.random.default_rng(13)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def _gelu(x: Array) -> Array:
    return np.vectorize(lambda v: 0.5 * v * (1 + erf(v / sqrt(2))))(x).astype(np.float32)


def _grouped(x: Array, factor: Array, term: Array, groups: int, *, silu: bool) -> Array:
    """Group normalisation of NCHW, in double precision."""
    split = x.astype(np.float64).reshape(len(x), groups, -1)
    low = split - split.mean(-1, keepdims=True)
    made = (low / np.sqrt((low * low).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    made = made * factor[:, None, None] + term[:, None, None]
    return (made / (1 + np.exp(-made)) if silu else made).astype(np.float32)


def _nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


X, BIAS, SKIP = some(2, 5, 8), some(8), some(2, 5, 8)
ACTIVATIONS = {
    "Gelu": Case("Gelu", [X]),
    "BiasGelu": Case("BiasGelu", [X, BIAS], constants=[1]),
    "FastGelu": Case("FastGelu", [X]),
    "FastGelu with a bias": Case("FastGelu", [X, BIAS], constants=[1]),
    "QuickGelu": Case("QuickGelu", [X]),
    "QuickGelu of a factor": Case("QuickGelu", [X], {"alpha": 0.7}),
    "BiasAdd": Case("BiasAdd", [X, BIAS, SKIP], expected=[X + BIAS + SKIP]),
    "BiasSplitGelu": Case(
        "BiasSplitGelu",
        [X, BIAS],
        expected=[(X + BIAS)[..., :4] * _gelu((X + BIAS)[..., 4:])],
    ),
}

A, B, W = some(3, 4, 6), some(3, 6, 5), some(6, 5)
IMAGE, TAPS, RESIDUAL = some(1, 4, 7, 7), some(6, 4, 3, 3), some(1, 6, 7, 7)
_SAME = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}


def _convolved(x: Array, w: Array) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", views, w).astype(np.float32)


PRODUCTS = {
    "FusedMatMul": Case("FusedMatMul", [A, B], {"alpha": 0.5}),
    "FusedMatMul of weights": Case("FusedMatMul", [A, W], {"alpha": 0.5}, constants=[1]),
    "FusedMatMul, turned weights": Case("FusedMatMul", [A, some(5, 6)], {"transB": 1}, [1]),
    "FusedMatMul, both turned": Case(
        "FusedMatMul", [some(3, 6, 4), some(3, 5, 6)], {"transA": 1, "transB": 1, "alpha": 2.0}
    ),
    "FusedMatMul, rows before batches": Case(
        "FusedMatMul", [some(4, 2, 3, 6), some(6, 2, 3, 5)], {"transBatchA": 1, "transBatchB": 1}
    ),
    "FusedMatMul, batches and matrices turned": Case(
        "FusedMatMul",
        [some(6, 2, 3, 4), some(5, 2, 3, 6)],
        {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1},
    ),
    "TransposeMatMul": Case("TransposeMatMul", [some(6, 4), some(6, 5)], {"transA": 1}),
    "FusedGemm": Case(
        "FusedGemm", [some(4, 6), W, some(5)], {"activation": "Relu", "alpha": 0.5}, [1, 2]
    ),
    "FusedGemm, LeakyRelu": Case(
        "FusedGemm",
        [some(4, 6), some(5, 6), some(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1},
        [1, 2],
    ),
    "FusedConv": Case("FusedConv", [IMAGE, TAPS, some(6)], {"activation": "Relu", **_SAME}, [1, 2]),
    "FusedConv of a residual": Case(
        "FusedConv", [IMAGE, TAPS, some(6), RESIDUAL], {"activation": "Relu", **_SAME}, [1, 2]
    ),
    "FusedConv, HardSigmoid": Case(
        "FusedConv",
        [IMAGE, TAPS],
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], **_SAME},
        [1],
    ),
    "FusedConv, Clip": Case(
        "FusedConv",
        [IMAGE, TAPS],
        {"activation": "Clip", "activation_params": [-1.0, 2.0], **_SAME},
        [1],
    ),
    "NhwcConv": Case(
        "NhwcConv",
        [_nhwc(IMAGE), TAPS],
        _SAME,
        constants=[1],
        expected=[_nhwc(_convolved(IMAGE, TAPS))],
    ),
    "NhwcFusedConv": Case(
        "NhwcFusedConv",
        [_nhwc(IMAGE), TAPS, None, _nhwc(RESIDUAL)],
        {"activation": "Relu", **_SAME},
        constants=[1],
        expected=[np.maximum(_nhwc(_convolved(IMAGE, TAPS) + RESIDUAL), 0)],
    ),
    "NhwcMaxPool": Case(
        "NhwcMaxPool",
        [_RNG.integers(0, 255, (1, 7, 7, 4)).astype(np.uint8)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "ConvTransposeWithDynamicPads": Case(
        "ConvTransposeWithDynamicPads",
        [IMAGE, some(4, 3, 3, 3), np.array([1, 1, 1, 1], np.int64)],
        {"strides": [2, 2], "output_padding": [1, 1]},
        constants=[1, 2],
    ),
    "CDist": Case("CDist", [some(5, 3), some(4, 3)], {"metric": "sqeuclidean"}),
    "CDist, euclidean": Case("CDist", [some(5, 3), some(4, 3)], {"metric": "euclidean"}),
}

GAMMA, BETA = some(8), some(8)
IDS, MASK = (
    _RNG.integers(0, 10, (2, 5)).astype(np.int32),
    np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32),
)
WORDS, PLACES, SEGMENTS = some(10, 8), some(7, 8), some(2, 8)
SECTIONS = _RNG.integers(0, 2, (2, 5)).astype(np.int32)
NCHW, GROUPED = some(2, 8, 3, 3), some(2, 8)
NORMALISATIONS = {
    "LayerNormalization": Case(
        "LayerNormalization", [X, GAMMA, BETA], {"epsilon": 1e-3}, [1, 2], domain=""
    ),
    "SimplifiedLayerNormalization": Case(
        "SimplifiedLayerNormalization", [X, GAMMA], {"axis": -1}, [1], domain=""
    ),
    "SkipLayerNormalization": Case(
        "SkipLayerNormalization",
        [X, SKIP, GAMMA, BETA, BIAS],
        {"epsilon": 1e-5},
        [2, 3, 4],
        outputs=[True, False, False, True],
    ),
    "SkipLayerNormalization of one skip": Case(
        "SkipLayerNormalization", [X, some(5, 8), GAMMA, None], constants=[2]
    ),
    "SkipSimplifiedLayerNormalization": Case(
        "SkipSimplifiedLayerNormalization",
        [X, SKIP, GAMMA, BIAS],
        {"epsilon": 1e-6},
        [2, 3],
        outputs=[True, False, False, True],
    ),
    "EmbedLayerNormalization": Case(
        "EmbedLayerNormalization",
        [IDS, SECTIONS, WORDS, PLACES, SEGMENTS, GAMMA, BETA, MASK],
        {"epsilon": 1e-5},
        constants=[2, 3, 4, 5, 6],
        outputs=[True, True, True],
    ),
    "EmbedLayerNormalization without segments": Case(
        "EmbedLayerNormalization",
        [IDS, None, WORDS, PLACES, None, GAMMA, BETA, None, IDS % 7],
        constants=[2, 3, 4, 5, 6],
        outputs=[True, True],
    ),
    "GroupNorm, channels last": Case(
        "GroupNorm",
        [_nhwc(NCHW), GAMMA, BETA],
        {"groups": 2, "activation": 1},
        constants=[1, 2],
        expected=[_nhwc(_grouped(NCHW, GAMMA, BETA, 2, silu=True))],
    ),
    "GroupNorm, channels first": Case(
        "GroupNorm",
        [NCHW, GAMMA, BETA],
        {"groups": 4, "activation": 0, "channels_last": 0},
        constants=[1, 2],
        expected=[_grouped(NCHW, GAMMA, BETA, 4, silu=False)],
    ),
    "SkipGroupNorm": Case(
        "SkipGroupNorm",
        [_nhwc(NCHW), GAMMA, BETA, GROUPED, BIAS],
        {"groups": 2, "activation": 0},
        constants=[1, 2, 4],
        outputs=[True, True],
        expected=[
            _nhwc(_grouped(NCHW + (GROUPED + BIAS)[..., None, None], GAMMA, BETA, 2, silu=False)),
            _nhwc(NCHW) + GROUPED[:, None, None] + BIAS,
        ],
    ),
}
ALL = ACTIVATIONS | PRODUCTS | NORMALISATIONS


@pytest.mark.parametrize("name", ALL)
def test_an_operator_gives_what_onnx_runtime_gives(name: str) -> None:
    check(ALL[name])


@pytest.mark.parametrize("name", [name for name in NORMALISATIONS if "GroupNorm" not in name])
def test_normalisations_take_open_sizes(name: str) -> None:
    """But those of groups of channels, whose number must be known."""
    check(NORMALISATIONS[name], is_open=True)


@pytest.mark.slow
def test_all_run_natively() -> None:
    session = check_together(list(ALL.values()))
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_half_precision_runs_as_single() -> None:
    halves = [x.astype(np.float16) for x in (X, SKIP, GAMMA, BETA)]
    check(Case("SkipLayerNormalization", halves, constants=[2, 3], tolerance=4e-3))


def test_what_is_not_lowered_is_named_with_its_reason() -> None:
    case = Case("CDist", [some(2, 2), some(2, 2)], {"metric": "cosine"})
    with pytest.raises(UnsupportedOpsError) as found:
        ours(model([case]), case.feeds(), ["reference"])
    (entry,) = found.value.entries
    assert entry.kind == "com.microsoft.CDist" and "cosine" in entry.reason
