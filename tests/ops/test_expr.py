from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops import find
from circlet.ops.expr import (
    Call,
    Const,
    Expr,
    Param,
    Var,
    call,
    clamp,
    evaluate,
    leaves,
    rescale,
    to_c,
)
from circlet.ops.functions import FUNCTIONS, round_half_away
from tests.ops.one_op import make_op, tensor

pytestmark = pytest.mark.smoke

X, Y = Var(0), Var(1)
N, M = Var(0, "i32"), Var(1, "i32")


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def names(leaf: Expr) -> str:
    if isinstance(leaf, Var):
        return f"x{leaf.index}"
    return leaf.name if isinstance(leaf, Param) else repr(getattr(leaf, "value", None))


def test_float_arithmetic_stays_float32() -> None:
    result = evaluate((X * 2.0 - Y) / 4.0, [floats(1, 3), floats(5, 1)], {})
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, floats(-0.75, 1.25))


def test_plain_numbers_take_the_kind_beside_them() -> None:
    assert (X + 1).args[1] == Const(1.0, "f32")
    assert (3 - N).args[0] == Const(3, "i32")
    assert (1.0 / X).kind == "f32"


def test_integer_arithmetic_wraps_around() -> None:
    top = np.array([2**31 - 1], np.int32)
    assert evaluate(N + 1, [top], {})[0] == -(2**31)
    assert evaluate(N * N, [top], {})[0] == 1
    assert evaluate(call("shl", N, 1), [top], {})[0] == -2


def test_comparison_chooses_between_values() -> None:
    value = call("select", X > 0.0, X, X * 0.5)
    assert (X > 0.0).kind == "mask"
    assert value.kind == "f32"
    np.testing.assert_array_equal(evaluate(value, [floats(-2, 0, 3)], {}), floats(-1, 0, 3))


def test_clamp_keeps_not_a_number() -> None:
    result = evaluate(clamp(X, -1.0, 1.0), [floats(-5, np.nan, 5)], {})
    np.testing.assert_array_equal(result, floats(-1, np.nan, 1))


def test_operands_broadcast() -> None:
    assert evaluate(X + Y, [np.ones((2, 1), np.float32), np.ones(3, np.float32)], {}).shape == (
        2,
        3,
    )


@pytest.mark.parametrize(
    ("value", "exponent", "result"), [(5, 1, 3), (-5, 1, -3), (-6, 2, -2), (6, 2, 2), (7, 0, 7)]
)
def test_division_by_powers_of_two_rounds_half_away(value: int, exponent: int, result: int) -> None:
    expression = call("rdbpot", N, exponent)
    assert evaluate(expression, [np.array([value], np.int32)], {})[0] == result


def test_doubling_high_product_saturates() -> None:
    low = np.array([-(2**31)], np.int32)
    assert evaluate(call("srdhm", N, M), [low, low], {})[0] == 2**31 - 1
    half = np.array([2**30], np.int32)
    assert evaluate(call("srdhm", N, M), [half, half], {})[0] == 2**29


def test_rescale_reads_its_parameters() -> None:
    params = {"m_multiplier": 1 << 30, "m_left": 3, "m_right": 1}
    assert evaluate(rescale(N, "m"), [np.array([10], np.int32)], params)[0] == 20


def test_rounding_does_not_move_just_under_a_half() -> None:
    x = floats(0.49999997, 0.5, -0.5, -2.5, 2.4999998)
    np.testing.assert_array_equal(round_half_away(x), floats(0, 1, -1, -3, 2))


def test_smooth_functions_keep_their_limits() -> None:
    x = floats(-200, 0, 200)
    np.testing.assert_array_equal(evaluate(call("logistic", X), [x], {}), floats(0, 0.5, 1))
    np.testing.assert_array_equal(evaluate(call("erf", X), [x], {}), floats(-1, 0, 1))


def test_c_text_is_infix_or_a_typed_call() -> None:
    assert to_c(X * 2.0 + Y, names) == "((x0 * 2.0) + x1)"
    assert to_c(clamp(N, -1, 1), names) == "v_min_i32(v_max_i32(x0, -1), 1)"
    assert (
        to_c(call("select", X > 0.0, X, -X), names)
        == "v_select_f32(v_mask_f32(x0 > 0.0), x0, (-x0))"
    )
    assert to_c(rescale(N, "m"), names) == (
        "v_rdbpot(v_srdhm(v_shl_i32(x0, m_left), m_multiplier), m_right)"
    )


def test_c_spelling_can_be_replaced() -> None:
    assert to_c(call("exp", X), names, {"exp": "fast_exp({0})"}) == "fast_exp(x0)"


def test_leaves_are_listed_once() -> None:
    assert leaves(X * X + Y * Param("p", "f32")) == [X, Y, Param("p", "f32")]


def test_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match="takes 2"):
        call("add", X)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_has_a_template_for_its_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    arguments = [f"a{index}" for index in range(function.arity)]
    text = function.c.format(*arguments, kind="f32", wide="")
    assert all(text.count(argument) == 1 for argument in arguments)


def test_ops_that_differ_in_scales_only_share_their_expression() -> None:
    record, x = find("ADD"), np.zeros((1, 4), np.int8)
    assert record is not None
    assert record.scalar is not None
    ops = [
        make_op("ADD", [tensor("a", x, (s, 0)), tensor("b", x, (0.1, 3))], (DType.INT8, (0.3, 1)))
        for s in (0.1, 0.2)
    ]
    first, second = (record.scalar(op) for op in ops)
    assert isinstance(first.expr, Call)
    assert first.expr == second.expr
    assert first.params != second.params
    parameters = [leaf.name for leaf in leaves(first.expr) if isinstance(leaf, Param)]
    assert sorted(parameters) == sorted(first.params)
