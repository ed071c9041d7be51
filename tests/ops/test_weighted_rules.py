"""Each rule of the records with weights or windows has one op that breaks it and no rule before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlet.ir import DType, Op, Quantization
from circlet.ir.builder import constant
from circlet.ops import find, get
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.ops import test_conv, test_fully_connected, test_pool

Change = Callable[[Op], None]


def valid(kind: str) -> Op:
    """An int8 op of the kind that breaks no rule."""
    if kind == "FULLY_CONNECTED":
        return test_fully_connected.model_of("int8", FullyConnectedAttrs()).main.ops[0]
    if kind.endswith("POOL_2D"):
        dtype = DType.FLOAT32 if kind == "L2_POOL_2D" else DType.INT8
        return test_pool.model_of(kind, dtype, "VALID").main.ops[0]
    attrs = test_conv.attrs_of(kind, "VALID")
    return test_conv.model_of(kind, "int8_per_channel", attrs).main.ops[0]


def shaped(index: int, *shape: int | None) -> Change:
    def change(op: Op) -> None:
        tensor = op.inputs[index]
        assert tensor is not None
        tensor.shape = shape

    return change


def with_attrs(**fields: object) -> Change:
    def change(op: Op) -> None:
        attrs: Any = op.attrs
        op.attrs = replace(attrs, **fields)

    return change


def quantised(index: int, quant: Quantization | None) -> Change:
    def change(op: Op) -> None:
        tensor = op.outputs[0] if index < 0 else op.inputs[index]
        assert tensor is not None
        tensor.quant = quant

    return change


def sixteen_bits(index: int) -> Change:
    """Data and result become int16; their zero points stay."""

    def change(op: Op) -> None:
        data = op.inputs[index]
        assert data is not None
        data.dtype = op.outputs[0].dtype = DType.INT16

    return change


def output_shape(*sizes: int) -> Change:
    def change(op: Op) -> None:
        op.inputs[0] = constant("s", np.array(sizes, np.int32))

    return change


ZERO_SCALE = Quantization.per_tensor(0.0)
WRONG_AXIS = Quantization.per_channel(np.ones(16), 1)
STRIDES = "strides_dilations_in_range"
POOL_SIZES = "strides_kernel_shape_in_range"
CONVOLUTION: list[tuple[str, Change]] = [
    ("input_rank", shaped(0, 17, 13, 8)),
    ("weights_rank", shaped(1, 16, 9, 8)),
    ("operands_not_empty", shaped(0, 2, 0, 13, 8)),
    ("weights_sizes_known", shaped(1, 16, None, 3, 8)),
    ("padding_known", with_attrs(padding="FULL")),
    ("padding_known", with_attrs(padding=((0, 0), (-1, 0)))),
    ("padding_known", with_attrs(padding=((0, 0),))),
    ("activation_known", with_attrs(activation="TANH")),
    (STRIDES, with_attrs(strides=(0, 1))),
    (STRIDES, with_attrs(dilations=(1, -1))),
    (STRIDES, with_attrs(strides=(1,))),
    ("bias_size", shaped(2, 15)),
    ("window_fits", with_attrs(dilations=(9, 1))),
    ("quantised", quantised(0, ZERO_SCALE)),
    ("quantised", quantised(-1, None)),
    ("weights_quantised", quantised(1, WRONG_AXIS)),
    ("weights_quantised", quantised(1, Quantization.per_channel(np.ones(15), 0))),
    ("weights_quantised", quantised(1, None)),
    ("factor_in_reach", quantised(-1, Quantization.per_tensor(1e-20))),
    ("int16-centred", sixteen_bits(0)),
]
POOLING: list[tuple[str, Change]] = [
    ("input_rank", shaped(0, 17, 13, 8)),
    ("operands_not_empty", shaped(0, 2, 17, 13, 0)),
    ("padding_known", with_attrs(padding="FULL")),
    ("padding_known", with_attrs(padding=((0, 0), (-1, 0)))),
    ("padding_known", with_attrs(padding=((0, 0),))),
    ("activation_known", with_attrs(activation="TANH")),
    (POOL_SIZES, with_attrs(kernel_shape=(0, 3))),
    ("window_fits", with_attrs(kernel_shape=(3, 14))),
    ("padding_below_kernel", with_attrs(padding=((0, 4), (0, 0)))),
]
CASES: dict[str, list[tuple[str, Change]]] = {
    "CONV_2D": [
        *CONVOLUTION,
        ("groups_fit", shaped(1, 16, 3, 3, 3)),
        ("groups_fit", with_attrs(groups=2)),
    ],
    "DEPTHWISE_CONV_2D": [
        *CONVOLUTION,
        ("multiplier_fits", shaped(1, 1, 3, 3, 12)),
        ("multiplier_fits", shaped(1, 2, 3, 3, 16)),
    ],
    "TRANSPOSE_CONV": [
        ("input_rank", shaped(2, 17, 13, 8)),
        ("weights_rank", shaped(1, 16, 9, 8)),
        ("operands_not_empty", shaped(1, 16, 3, 0, 8)),
        ("weights_sizes_known", shaped(1, 16, None, 3, 8)),
        ("padding_known", with_attrs(padding="FULL")),
        ("activation_known", with_attrs(activation="TANH")),
        ("strides_in_range", with_attrs(strides=(1, 0))),
        ("depth_fits", shaped(1, 16, 3, 3, 7)),
        ("output_shape_fits", output_shape(2, 35, 41)),
        ("output_shape_fits", output_shape(2, -35, 41, 16)),
        ("output_shape_fits", output_shape(2, 35, 41, 17)),
        ("windows_fit", output_shape(2, 350, 41, 16)),
        ("bias_size", shaped(3, 15)),
        ("factor_in_reach", quantised(-1, Quantization.per_tensor(1e-20))),
        ("int16-centred", sixteen_bits(2)),
        ("quantised", quantised(2, ZERO_SCALE)),
        ("weights_quantised", quantised(1, WRONG_AXIS)),
    ],
    "FULLY_CONNECTED": [
        ("weights_rank", shaped(1, 960)),
        ("operands_not_empty", shaped(1, 24, 0)),
        ("activation_known", with_attrs(activation="TANH")),
        ("weights_format_known", with_attrs(weights_format="SHUFFLED4x16INT8")),
        ("depth_fits", shaped(0, 6, 39)),
        ("bias_size", shaped(2, 23)),
        ("quantised", quantised(0, None)),
        ("weights_quantised", quantised(1, Quantization.per_channel(np.ones(24), 1))),
        ("factor_in_reach", quantised(-1, Quantization.per_tensor(1e-20))),
        ("int16-centred", sixteen_bits(0)),
    ],
    "AVERAGE_POOL_2D": [
        *POOLING,
        ("quantised", quantised(0, ZERO_SCALE)),
        ("same-scale", quantised(-1, Quantization.per_tensor(0.2, -7))),
    ],
    "MAX_POOL_2D": [
        *POOLING,
        ("quantised", quantised(0, ZERO_SCALE)),
        ("same-scale", quantised(-1, Quantization.per_tensor(0.2, -7))),
    ],
    "L2_POOL_2D": POOLING,
}


@pytest.mark.parametrize(
    ("kind", "rule", "change"),
    [(kind, rule, change) for kind, cases in CASES.items() for rule, change in cases],
)
def test_a_broken_rule_is_the_first_that_fails(kind: str, rule: str, change: Change) -> None:
    op = valid(kind)
    assert [r.name for r in get(op).rules if not r.holds(op)] == []
    change(op)
    assert next(r.name for r in get(op).rules if not r.holds(op)) == rule


@pytest.mark.parametrize("kind", CASES)
def test_every_rule_has_an_op_that_breaks_it(kind: str) -> None:
    record = find(kind)
    assert record is not None
    unbroken = {rule.name for rule in record.rules} - {name for name, _ in CASES[kind]}
    assert unbroken <= ({"quantised", "same-scale"} if kind == "L2_POOL_2D" else set())
