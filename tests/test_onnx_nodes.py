"""ONNX's own backend tests over `circlet.onnx_backend`: a chosen few, and all of them."""

from __future__ import annotations

import fnmatch
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests import onnx_nodes

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytestmark = pytest.mark.slow  # the package makes all of its cases to give one

CHOSEN = (
    "add_bcast",
    "affine_grid_2d",
    "and2d",
    "argmax_default_axis_example",
    "attention_4d_causal_nonpad_batch_prefill",
    "averagepool_2d_ceil",
    "averagepool_2d_same_lower",
    "basic_conv_with_padding",
    "basic_deform_conv_with_padding",
    "batchnorm_epsilon",
    "cast_FLOAT_to_BFLOAT16",
    "cast_FLOAT_to_DOUBLE",
    "cast_e8m0_FLOAT_to_FLOAT8E8M0",
    "cast_no_saturate_FLOAT_to_FLOAT8E5M2",
    "clip_example",
    "concat_2d_axis_1",
    "constantofshape_int_zeros",
    "conv_with_strides_and_asymmetric_padding",
    "convtranspose_output_shape",
    "cumsum_1d_exclusive",
    "depthtospace_crd_mode_example",
    "dequantizelinear_axis",
    "dequantizelinear_int4",
    "dequantizelinear_uint2",
    "einsum_transpose",
    "expand_dim_unchanged",
    "flatten_negative_axis1",
    "gather_negative_indices",
    "gemm_all_attributes",
    "gru_defaults",
    "hardmax_axis_1",
    "if",
    "instancenorm_epsilon",
    "linear_attention_gated_delta_gqa",
    "loop11",
    "melweightmatrix",
    "layer_normalization_3d_axis1_epsilon",
    "logsoftmax_axis_0",
    "lstm_with_peepholes",
    "matmulinteger",
    "maxpool_2d_dilations",
    "maxpool_with_argmax_2d_precomputed_pads",
    "mod_int64_fmod",
    "nonmaxsuppression_two_batches",
    "pow_types_int32_float32",
    "qlinearconv",
    "quantizelinear_axis",
    "quantizelinear_e4m3fn",
    "quantizelinear_float4e2m1",
    "range_bfloat16_type_positive_delta",
    "reduce_l2_keep_dims_example",
    "reshape_zero_and_negative_dim",
    "resize_upsample_scales_cubic_align_corners",
    "roialign_aligned_true",
    "roialign_mode_max",
    "scan9_multi_state",
    "scatter_elements_with_duplicate_indices",
    "slice_neg_steps",
    "softmax_axis_1",
    "split_zero_size_splits_opset18",
    "squeeze_negative_axes",
    "stft_with_window",
    "tile",
    "top_k_smallest",
    "unique_sorted_without_axis",
    "upsample_nearest",
    "where_example",
)

PARTS = 12
NATIVE_PARTS = 96
"""Of so many parts, four are compiled: all of them would take an hour."""


@cache
def known() -> dict[str, Any]:
    return {case.name: case for case in onnx_nodes.loaded(("node",))}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_case_of_onnx_passes_in_numpy(name: str) -> None:
    case = known()[f"test_{name}"]
    assert onnx_nodes.run_case(case, "reference") == ""


@cache
def counted() -> list[Any]:
    return list(onnx_nodes.cases())


@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_of_onnx_but_known_ones_pass_in_numpy(part: int) -> None:
    cases = [case for case in counted()[part::PARTS] if not onnx_nodes.known_failure(case.name)]
    assert {case.name: reason(case, "reference") for case in cases} == dict.fromkeys(
        (case.name for case in cases), ""
    )


def test_what_is_known_to_fail_is_little_and_fails() -> None:
    known_ones = [case for case in counted() if onnx_nodes.known_failure(case.name)]
    failed = [case.name for case in known_ones if reason(case, "reference")]
    assert 0 < len(failed) <= 0.02 * len(counted())
    for pattern in onnx_nodes.KNOWN_FAILURES:
        assert fnmatch.filter(failed, pattern), pattern


@pytest.mark.parametrize("part", range(4))
def test_what_passes_in_numpy_passes_natively(part: int) -> None:
    cases = [case for case in counted()[part::NATIVE_PARTS] if not reason(case, "reference")]
    assert cases
    assert {case.name: reason(case, "cpu") for case in cases} == dict.fromkeys(
        (case.name for case in cases), ""
    )


def reason(case: Any, backend: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx_nodes.run_case(case, backend)


def test_a_wrong_answer_is_seen() -> None:
    case = known()["test_tile"]
    ((_, wanted),) = onnx_nodes.data_sets(case)
    wrong = [np.asarray(array) + 1 for array in wanted]
    assert "values differ" in onnx_nodes.difference(wrong, wanted, case)
    assert "shape" in onnx_nodes.difference([wrong[0][:1]], wanted, case)


def test_a_node_runs_alone_and_by_its_inputs_names() -> None:
    from circlet import onnx_backend

    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    x = np.ones((2, 2), np.float32)
    options: dict[str, Any] = {"backends": ("reference",), "cache": False}
    assert onnx_backend.run_node(node, [x, x], **options).c.tolist() == [[2, 2], [2, 2]]
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
