from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops import find, lut
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.smooth import GeluAttrs
from tests.ops.one_op import (
    assert_agrees,
    broken_rule,
    centre,
    every_value,
    make_op,
    stored_values,
    tensor,
)

Quant = tuple[float, int]

BYTES = (DType.INT8, DType.UINT8)
SCALES = [(0.004, -128), (0.0312, 0), (0.05, 17), (0.33, -60), (1.7, 100)]
RELUS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("quant", SCALES)
@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
def test_table_has_the_peers_entries(kind: str, quant: Quant, dtype: DType) -> None:
    x = every_value(dtype)
    result = (1 / 256, -128) if kind == "LOGISTIC" else (1 / 128, 0)
    op = make_op(
        kind,
        [tensor("x", x, (quant[0], quant[1] + centre(dtype)))],
        (dtype, (result[0], result[1] + centre(dtype))),
        version=2,
    )
    assert_agrees(op, [x])
    table = lut.table_of(op)
    assert table is not None
    np.testing.assert_array_equal(lut.apply(table, x)[0], table)


@pytest.mark.parametrize("quant", SCALES)
@pytest.mark.parametrize("kind", ["ELU", "GELU"])
def test_smooth_function_of_int8_agrees(kind: str, quant: Quant) -> None:
    x = every_value(DType.INT8)
    assert_agrees(make_op(kind, [tensor("x", x, quant)], (DType.INT8, (0.03, -90))), [x])


@pytest.mark.parametrize("scale", [1 / 4096, 1 / 2048, 1 / 65536, 3e-4, 0.011, 1.0, 5.2, 1e-10])
@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
def test_pieces_of_int16_functions_agree(kind: str, scale: float) -> None:
    x = np.arange(-32768, 32768).astype(np.int16)[None]
    result = (DType.INT16, (1 / 32768, 0))
    assert_agrees(make_op(kind, [tensor("x", x, (scale, 0))], result, version=3), [x])
    too_large = make_op(kind, [tensor("x", x, (5.5, 0))], result, version=3)
    assert broken_rule(too_large) == "input-scale"


@pytest.mark.parametrize("scales", [(3e-4, 4e-4), (1e-3, 3e-5), (7e-5, 2e-3)])
@pytest.mark.parametrize("kind", ["EXP", "LOG", "GELU", "SQRT", "ABS"])
def test_function_of_int16_agrees(kind: str, scales: tuple[float, float]) -> None:
    x = np.arange(0 if kind == "SQRT" else -32768, 32768).astype(np.int16)[None]
    op = make_op(kind, [tensor("x", x, (scales[0], 0))], (DType.INT16, (scales[1], 0)), version=2)
    assert_agrees(op, [x])


@pytest.mark.parametrize("quant", SCALES)
@pytest.mark.parametrize("result", [(0.03, -90), (0.05, 4), (0.0007, -128)])
@pytest.mark.parametrize("kind", ["EXP", "LOG", "ABS"])
def test_function_of_int8_agrees(kind: str, quant: Quant, result: Quant) -> None:
    x = every_value(DType.INT8)
    assert_agrees(make_op(kind, [tensor("x", x, quant)], (DType.INT8, result), version=2), [x])


@pytest.mark.parametrize("result", [(0.05, -127), (0.02, -20), (0.125, 5)])
@pytest.mark.parametrize("scale", [0.04, 0.11, 1 / 16])
def test_root_of_int8_agrees(scale: float, result: Quant) -> None:
    x = every_value(DType.INT8)
    op = make_op("SQRT", [tensor("x", x, (scale, -128))], (DType.INT8, result), version=2)
    assert_agrees(op, [x])


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("quant", SCALES)
@pytest.mark.parametrize("result", [(0.03, -100), (0.5, 3)])
@pytest.mark.parametrize("kind", [*RELUS, "HARD_SWISH"])
def test_every_byte_gives_the_peers_result(
    kind: str, result: Quant, quant: Quant, dtype: DType
) -> None:
    x = every_value(dtype)
    op = make_op(
        kind,
        [tensor("x", x, (quant[0], quant[1] + centre(dtype)))],
        (dtype, (result[0], result[1] + centre(dtype))),
        version=2 if kind in ("RELU", "RELU6") else 1,
    )
    if kind == "HARD_SWISH" and broken_rule(op) == "output-scale":
        pytest.skip("LiteRT refuses an output scale this much finer than the input's")
    assert_agrees(op, [x])


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("quant", SCALES)
@pytest.mark.parametrize("alpha", [0.2, 0.0, 1.4])
def test_leaky_relu_of_bytes_agrees(alpha: float, quant: Quant, dtype: DType) -> None:
    x = every_value(dtype)
    op = make_op(
        "LEAKY_RELU",
        [tensor("x", x, (quant[0], quant[1] + centre(dtype)))],
        (dtype, (0.07, -5 + centre(dtype))),
        LeakyReluAttrs(alpha),
        version=2,
    )
    assert_agrees(op, [x])


@pytest.mark.parametrize("dtype", BYTES)
def test_prelu_of_bytes_agrees(dtype: DType) -> None:
    x, slopes = stored_values(dtype, (1, 7, 9, 16)), stored_values(dtype, (1, 1, 16), seed=1)
    inputs = [
        tensor("x", x, (0.05, 4 + centre(dtype))),
        tensor("slopes", slopes, (0.004, -9 + centre(dtype)), constant=True),
    ]
    assert_agrees(make_op("PRELU", inputs, (dtype, (0.06, -20 + centre(dtype)))), [x])


@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        *((kind, None) for kind in (*RELUS, "HARD_SWISH", "LOGISTIC", "TANH", "ELU")),
        ("LEAKY_RELU", LeakyReluAttrs(0.3)),
        ("GELU", GeluAttrs(False)),
        ("GELU", GeluAttrs(True)),
    ],
)
def test_float_activation_agrees(kind: str, attrs: object) -> None:
    x = np.linspace(-12, 12, 4001, dtype=np.float32)[None]
    assert_agrees(make_op(kind, [tensor("x", x)], (DType.FLOAT32, None), attrs), [x])


def test_float_prelu_agrees() -> None:
    rng = np.random.default_rng(0)
    x, slopes = rng.normal(0, 2, (2, 3, 3, 4)), rng.normal(0, 1, (1, 1, 4))
    inputs = [tensor("x", x.astype(np.float32))]
    inputs.append(tensor("slopes", slopes.astype(np.float32), constant=True))
    assert_agrees(make_op("PRELU", inputs, (DType.FLOAT32, None)), [x.astype(np.float32)])


def test_rules_refuse_scales_that_the_tables_do_not_have() -> None:
    x = tensor("x", every_value(DType.INT8), (0.1, 0))
    assert broken_rule(make_op("LOGISTIC", [x], (DType.INT8, (0.01, -128)))) == "output-scale"
    assert broken_rule(make_op("HARD_SWISH", [x], (DType.INT8, (1e-5, 0)))) == "output-scale"


def test_slopes_larger_than_the_input_are_refused() -> None:
    x, slopes = np.zeros((2, 1), np.float32), np.zeros((2, 5), np.float32)
    op = make_op("PRELU", [tensor("x", x), tensor("s", slopes)], (DType.FLOAT32, None))
    assert broken_rule(op) == "slopes"


def test_only_bytes_have_tables() -> None:
    x = np.zeros((1, 4), np.float32)
    assert lut.table_of(make_op("TANH", [tensor("x", x)], (DType.FLOAT32, None))) is None
    assert find("TANH") is not None
