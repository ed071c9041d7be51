from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.ir import DType, Model, Quantization, Shape, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.hybrid import quantise_rows
from tests.ops.single_op import (
    floats,
    integers,
    per_channel,
    per_tensor,
    replay_single,
    scales,
    single_op,
)

UNITS, DEPTH = 24, 40
FAMILIES = ("float", "uint8", "int8", "int8_per_channel", "hybrid", "hybrid_per_channel")


def model_of(
    family: str, attrs: FullyConnectedAttrs, shape: Shape = (6, DEPTH), bias: bool = True
) -> Model:
    """A layer of 24 units over rows of 40 values."""
    real = family == "float" or family.startswith("hybrid")
    dtype = DType.FLOAT32 if real else DType[family.removesuffix("_per_channel").upper()]
    zero = {DType.INT8: -7, DType.UINT8: 99}.get(dtype)
    constants: list[Tensor | None] = [_weights(family)]
    if bias and real:
        constants.append(constant("b", floats((UNITS,), 2)))
    if bias and not real:
        whole = integers((UNITS,), np.int32, 2, 20000)
        constants.append(constant("b", whole, per_tensor(0.005)))
    data = None if zero is None else per_tensor(0.5, zero)
    output = None if zero is None else per_tensor(2.5, zero + 9)
    return single_op("FULLY_CONNECTED", (dtype, shape, data), constants, attrs, output)


def _weights(family: str) -> Tensor:
    if family == "float":
        return constant("w", floats((UNITS, DEPTH), 1))
    if family == "uint8":
        return constant("w", integers((UNITS, DEPTH), np.uint8, 1), per_tensor(0.01, 77))
    quant: Quantization = per_tensor(0.01)
    if family.endswith("per_channel"):
        quant = per_channel(scales(UNITS, 0.01), 0)
    return constant("w", integers((UNITS, DEPTH), np.int8, 1, 127), quant)


def assert_agrees(model: Model, folder: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is the judge")
    row = replay_single(model, folder)
    assert (row.mismatches, row.skipped) == (0, "")
    assert row.values > 0


@pytest.mark.smoke
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("family", FAMILIES)
def test_layers_agree_with_litert(family: str, activation: str, tmp_path: Path) -> None:
    attrs = FullyConnectedAttrs(activation=activation)
    assert_agrees(model_of(family, attrs), tmp_path)


@pytest.mark.parametrize("family", ["hybrid", "hybrid_per_channel"])
def test_asymmetric_inputs_agree_with_litert(family: str, tmp_path: Path) -> None:
    attrs = FullyConnectedAttrs(asymmetric_quantize_inputs=True)
    assert_agrees(model_of(family, attrs), tmp_path)


@pytest.mark.parametrize("family", ["float", "uint8", "int8"])
def test_a_bias_may_be_left_out(family: str, tmp_path: Path) -> None:
    assert_agrees(model_of(family, FullyConnectedAttrs(), bias=False), tmp_path)


@pytest.mark.parametrize("keep", [False, True])
def test_rows_are_the_leading_dimensions(keep: bool, tmp_path: Path) -> None:
    model = model_of("int8", FullyConnectedAttrs(keep_num_dims=keep), (2, 3, DEPTH))
    assert model.main.outputs[0].shape == ((2, 3, UNITS) if keep else (6, UNITS))
    assert_agrees(model, tmp_path)


def test_unknown_rows_stay_unknown_in_the_output() -> None:
    op = model_of("float", FullyConnectedAttrs(), (None, DEPTH)).main.ops[0]
    assert get(op).infer(op)[0].shape == (None, UNITS)
    op.inputs[0].shape, op.inputs[0].has_rank = (), False  # type: ignore[union-attr]
    assert all(rule.holds(op) for rule in get(op).rules)
    assert get(op).infer(op)[0].shape == (None, UNITS)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_dynamic_quantisation_keeps_zero_rows_zero(asymmetric: bool) -> None:
    rows = np.stack([np.zeros(DEPTH, np.float32), floats((DEPTH,))])
    quantised = quantise_rows(rows, asymmetric=asymmetric)
    assert not quantised.values[0].any()
    error = np.abs(quantised.values[1] * quantised.scales[1] - rows[1]).max()
    assert error <= quantised.scales[1] * 0.5001


def test_rows_of_no_numbers_do_not_stop_a_run() -> None:
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [1e-45, 0.0]], np.float32)
    for asymmetric in (False, True):
        quantised = quantise_rows(rows, asymmetric=asymmetric)
        assert np.isfinite(quantised.values).all()


def test_an_output_step_finer_than_any_sum_saturates() -> None:
    op = model_of("int8", FullyConnectedAttrs()).main.ops[0]
    op.outputs[0].quant = per_tensor(1e-38)
    weights, bias = op.inputs[1], op.inputs[2]
    assert weights is not None and bias is not None
    (result,) = get(op).evaluate(op, [integers((6, DEPTH), np.int8), weights.data, bias.data])
    assert set(result.reshape(-1).tolist()) <= {-128, 0, 127}
