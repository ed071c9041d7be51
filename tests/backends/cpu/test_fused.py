"""Fused ops give bit for bit what their parts give one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.lower.elementwise.affine import affine_params
from circlet.backends.cpu.passes import native_pipeline
from circlet.ir import DType, Graph, Quantization
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.quotient import DivAttrs
from tests.backends.cpu.cases import Cases, each_target, each_width, each_width_of
from tests.backends.cpu.harness import run_native, runnable


def fused(graph: Graph) -> Graph:
    """A graph as native code runs it."""
    made = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(made)
    return made


def check_same(cases: Cases, target: str, kinds: list[str], threads: int = 2) -> None:
    """Assert which kinds a graph fuses to, and that its results stay what they were."""
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    after = fused(graph)
    assert [op.kind for op in after.ops] == kinds
    wanted = run_native(graph, cases.inputs, target)
    got = run_native(after, cases.inputs, target, threads)
    for tensor, a, b in zip(graph.outputs, got, wanted, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=str(tensor))


@each_target
def test_a_chain_with_broadcasts_is_one_kernel(target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x, y = cases.data(DType.FLOAT32, (2, 5, 7, 33)), cases.data(DType.FLOAT32, (2, 5, 7, 1))
    gamma = cases.constant(cases.values(DType.FLOAT32, (33,)))
    cubed = make("MUL", [x, make("MUL", [x, x], MulAttrs())], MulAttrs())
    scaled = make("MUL", [cubed, cases.constant(np.float32(0.044715))], MulAttrs())
    inner = make("TANH", [make("ADD", [x, scaled], AddAttrs("RELU6"))])
    gated = make("MUL", [make("ADD", [inner, y], AddAttrs()), gamma], MulAttrs())
    cases.op("SUB", [gated, x], SubAttrs())
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


@each_target
def test_results_that_others_read_are_written_too(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (300, 50))
    square = cases.op("MUL", [x, x], MulAttrs())
    root = cases.op("SQRT", [square])
    cases.op("LOGISTIC", [root])
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


@each_target
def test_masks_and_integers_take_part(target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x, y = (cases.data(DType.FLOAT32, (9, 21)) for _ in range(2))
    either = make("LOGICAL_OR", [make("LESS", [x, y]), make("GREATER", [x, y])])
    chosen = make("SELECT_V2", [either, make("EXP", [x]), y])
    cases.op("NEG", [chosen])
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


@each_target
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_stored_values_are_read_and_written_by_the_chain(dtype: DType, target: str) -> None:
    cases = Cases()
    quant = Quantization.per_tensor(0.05, 0 if dtype is DType.INT16 else 3)
    real = cases.builder.op("DEQUANTIZE", [cases.data(dtype, (3, 77), quant)], dtype=DType.FLOAT32)
    soft = cases.builder.op("TANH", [real])
    cases.op("QUANTIZE", [soft], dtype=dtype, quant=Quantization.per_tensor(1 / 128))
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


@each_target
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_bytes_that_follow_from_one_tensor_come_from_a_table(dtype: DType, target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    low = -128 if dtype is DType.INT8 else 0
    x = cases.data(dtype, (3, 7, 77), Quantization.per_tensor(0.05, 3))
    gate = make("LOGISTIC", [x], dtype=dtype, quant=Quantization.per_tensor(1 / 256, low))
    quant = Quantization.per_tensor(0.04, 10)
    gated = make("MUL", [x, gate], MulAttrs(), dtype=dtype, quant=quant)
    cases.op("MUL", [gated, gated], MulAttrs(), dtype=dtype, quant=quant)
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


def test_tables_of_others_and_of_two_tensors_stay() -> None:
    cases = Cases()
    make, low = cases.builder.op, Quantization.per_tensor(1 / 256, -128)
    x, y = (cases.data(DType.INT8, (5, 77), Quantization.per_tensor(0.05, 3)) for _ in range(2))
    gate = make("LOGISTIC", [x], dtype=DType.INT8, quant=low)
    quant = Quantization.per_tensor(0.04, 10)
    for other in (x, y):
        cases.op("MUL", [other, gate], MulAttrs(), dtype=DType.INT8, quant=quant)
    check_same(cases, "native", ["LOGISTIC", "FUSED_ELEMENTWISE", "MUL"])


def test_a_chain_ends_where_others_need_its_result_first() -> None:
    cases = Cases()
    make = cases.builder.op
    x = cases.data(DType.FLOAT32, (40, 40))
    root = make("SQRT", [make("ABS", [x])])
    soft = make("SOFTMAX", [root])
    cases.op("ADD", [make("EXP", [soft]), root], AddAttrs())
    check_same(cases, "native", ["FUSED_ELEMENTWISE", "SOFTMAX", "FUSED_ELEMENTWISE"])


def test_two_chains_that_meet_become_one() -> None:
    cases = Cases()
    make = cases.builder.op
    x, y = (cases.data(DType.FLOAT32, (6, 40)) for _ in range(2))
    gate = make("LOGISTIC", [make("NEG", [x])])
    other = make("RELU", [make("ABS", [y])])
    cases.op("MUL", [gate, other], MulAttrs())
    check_same(cases, "native", ["FUSED_ELEMENTWISE"])


def test_a_kernel_takes_no_more_operands_than_it_has_room_for() -> None:
    cases = Cases()
    total = cases.data(DType.FLOAT32, (4, 40))
    for _ in range(13):
        total = cases.builder.op("ADD", [total, cases.data(DType.FLOAT32, (4, 40))], AddAttrs())
    cases.op("NEG", [total])
    check_same(cases, "native", ["FUSED_ELEMENTWISE", "FUSED_ELEMENTWISE"])


def test_other_sizes_stay_apart() -> None:
    cases = Cases()
    small = cases.builder.op("RSQRT", [cases.data(DType.FLOAT32, (4, 1), scale=0.0)])
    cases.op("MUL", [cases.data(DType.FLOAT32, (4, 40)), small], MulAttrs())
    check_same(cases, "native", ["RSQRT", "MUL"])


def test_a_fused_op_descends_from_all_its_parts() -> None:
    cases = Cases()
    x = cases.builder.op("ABS", [cases.data(DType.FLOAT32, (4,))], name="first")
    cases.op("NEG", [x])
    graph = cases.graph()
    (op,) = fused(graph).ops
    assert op.origin.name == "+".join(part.origin.name for part in graph.ops)


COLUMN_AND_ROW = np.arange(256)[:, None], np.arange(256)[None, :]
EVERY_PAIR = np.broadcast_arrays(*COLUMN_AND_ROW)
SUMS = {
    "plain": (DType.UINT8, "ADD", "NONE", (0.03, 0.03, 0.05), (128, 128, 128)),
    "clamped": (DType.INT8, "ADD", "RELU", (0.022, 0.051, 0.043), (3, -7, -20)),
    "difference": (DType.UINT8, "SUB", "NONE", (0.031, 0.027, 0.05), (128, 120, 131)),
    "ties": (DType.INT8, "ADD", "NONE", (0.5, 0.5, 1.0), (0, 0, 0)),
}


def _onnx_sum(cases: Cases, name: str, pairs: Sequence[np.ndarray] = EVERY_PAIR) -> None:
    """DequantizeLinear twice, a sum over all pairs of bytes, and QuantizeLinear."""
    dtype, kind, activation, steps, zeros = SUMS[name]
    factors = [cases.constant(np.float32(step)) for step in steps]
    places = [cases.constant(np.array([zero], dtype.numpy)) for zero in zeros]
    make, code = cases.builder.op, "onnx.DequantizeLinear"
    real = []
    for number, pair in enumerate(pairs):
        stored = cases.given(pair.astype(np.uint8).view(dtype.numpy))
        given = [stored, factors[number], places[number]]
        real.append(make("CUSTOM", given, OnnxAttrs(), dtype=DType.FLOAT32, custom_code=code))
    total = make(kind, real, (AddAttrs if kind == "ADD" else SubAttrs)(activation))
    given, code = [total, factors[2], places[2]], "onnx.QuantizeLinear"
    cases.op("CUSTOM", given, OnnxAttrs(), dtype=dtype, custom_code=code)


@each_width_of("name", SUMS, ["plain"])
def test_sums_of_bytes_between_floats_equal_their_parts_for_every_pair(
    name: str, target: str
) -> None:
    cases = Cases()
    _onnx_sum(cases, name)
    check_same(cases, target, ["FUSED_ELEMENTWISE"])


@each_width
@pytest.mark.parametrize("narrow", [0, 1])
def test_broadcast_bytes_are_summed_with_what_makes_floats_of_them(
    narrow: int, target: str
) -> None:
    cases = Cases()
    pair = list(EVERY_PAIR)
    pair[narrow] = COLUMN_AND_ROW[narrow]
    _onnx_sum(cases, "clamped", pair)
    _onnx_sum(cases, "ties", COLUMN_AND_ROW)
    check_same(cases, target, ["FUSED_ELEMENTWISE"] * 2)


@pytest.mark.parametrize(
    ("name", "is_affine"), [("plain", True), ("clamped", True), ("ties", False)]
)
def test_which_sums_between_floats_are_affine(name: str, is_affine: bool) -> None:
    cases = Cases()
    _onnx_sum(cases, name)
    (whole,) = fused(cases.graph()).ops
    assert (affine_params(whole) is not None) == is_affine


@each_width
def test_rows_divided_by_one_number_are_rounded_as_divisions(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = Cases()
    rows = cases.values(DType.FLOAT32, (9, 333))
    rows[:, :5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    by = np.array([3, -0.1, 1e-30, 2e35, 0, -0.0, np.inf, np.nan, 7e-31], np.float32)
    for divisor in (cases.given(by[:, None]), *(cases.constant(value) for value in by)):
        cases.op("DIV", [cases.given(rows), divisor], DivAttrs())
    got = run_native(cases.graph(), cases.inputs, target)
    with np.errstate(all="ignore"):
        for made, divisor in zip(got, (by[:, None], *by), strict=True):
            np.testing.assert_array_equal(made, rows / divisor)
