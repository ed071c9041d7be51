"""Normalisations as passes over rows stay within the bar of the records, and say what they join."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fused import FusedRowsAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.quotient import DivAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import ReshapeAttrs
from tests.backends.cpu.cases import Cases, each_target, each_width
from tests.backends.cpu.harness import run_native, runnable

ROWS = "FUSED_ROWS"
KEEP = ReducerAttrs(keep_dims=True)
SIZES = ((3, 16), (5, 17), (2, 3, 80), (7, 1000), (1, 4, 5, 65), (1, 24, 24))


def check_rows(cases: Cases, target: str, kinds: list[str]) -> Graph:
    """Assert which kinds a graph fuses to and that its results are the records', for any thread."""
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    after = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(after)
    assert [op.kind for op in after.ops] == kinds
    alone, shared = (run_native(after, cases.inputs, target, threads) for threads in (1, 2))
    wanted = evaluate_graph(graph, cases.inputs)
    for tensor, got, again, want in zip(graph.outputs, alone, shared, wanted, strict=True):
        np.testing.assert_array_equal(got, again, err_msg=str(tensor))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=str(tensor))
    return after


def axes(cases: Cases, x: Tensor, kept: int) -> Tensor:
    return cases.constant(np.arange(kept, len(x.static_shape), dtype=np.int32))


def layer_norm(cases: Cases, x: Tensor, kept: int = -1) -> Tensor:
    """As TensorFlow exports it, without the last op."""
    make, f32 = cases.builder.op, np.float32
    shape = x.static_shape
    over = axes(cases, x, kept % len(shape))
    gamma, beta = (cases.constant(cases.values(DType.FLOAT32, shape[kept:])) for _ in range(2))
    mean = make("MEAN", [x, over], KEEP)
    variance = make("MEAN", [make("SQUARED_DIFFERENCE", [x, mean]), over], KEEP)
    root = make("RSQRT", [make("ADD", [variance, cases.constant(f32(1e-3))], AddAttrs())])
    scaled = make("MUL", [make("SUB", [x, mean], SubAttrs()), root], MulAttrs())
    return make("ADD", [make("MUL", [scaled, gamma], MulAttrs()), beta], AddAttrs())


@each_width
@pytest.mark.parametrize("shape", SIZES)
def test_layer_norm_with_what_surrounds_it_is_one_kernel(
    shape: tuple[int, ...], target: str
) -> None:
    cases = Cases()
    a, b = (cases.data(DType.FLOAT32, shape) for _ in range(2))
    x = cases.op("ADD", [a, b], AddAttrs())
    cases.op("LOGISTIC", [layer_norm(cases, x)])
    (op,) = check_rows(cases, target, [ROWS]).ops
    assert op.outputs[0] is cases.outputs[-1]


@each_target
def test_stored_rows_are_normalised_around_their_zero_point(target: str) -> None:
    """The zero point is a whole number that all rows share, beside values of floats."""
    cases = Cases()
    for dtype, zero in ((DType.UINT8, 128), (DType.INT8, -7), (DType.UINT16, 40000)):
        stored, point = cases.data(dtype, (3, 40), None), np.array(zero, dtype.numpy)
        given = [stored, cases.constant(np.float32(0.02)), cases.constant(point)]
        real = cases.builder.op(
            "CUSTOM", given, OnnxAttrs(), dtype=DType.FLOAT32, custom_code="onnx.DequantizeLinear"
        )
        cases.outputs.append(layer_norm(cases, real))
    check_rows(cases, target, [ROWS] * 3)


@each_target
def test_rms_norm_that_drops_its_axis_is_one_kernel(target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x = cases.data(DType.FLOAT32, (4, 9, 96))
    total = make("SUM", [make("MUL", [x, x], MulAttrs()), cases.constant(np.array([2], np.int32))])
    mean = make("DIV", [total, cases.constant(np.float32(96))], DivAttrs())
    shape = cases.constant(np.array([4, 9, 1], np.int32))
    root = make("RSQRT", [make("RESHAPE", [mean, shape], ReshapeAttrs((4, 9, 1)))])
    cases.op("MUL", [x, root], MulAttrs())
    check_rows(cases, target, [ROWS])


@each_width
def test_reduced_axes_of_one_element_change_nothing(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (1, 7, 33))
    mean = cases.builder.op("MEAN", [x, cases.constant(np.array([0, 2], np.int32))])
    column = cases.constant(np.array([1, 7, 1], np.int32))
    shaped = cases.builder.op("RESHAPE", [mean, column], ReshapeAttrs((1, 7, 1)))
    cases.op("SQUARED_DIFFERENCE", [x, shaped])
    check_rows(cases, target, [ROWS])


@each_width
@pytest.mark.parametrize("shape", [(6, 16), (3, 100), (2, 3, 1001)])
def test_softmax_spelled_out_keeps_its_powers(shape: tuple[int, ...], target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x = cases.data(DType.FLOAT32, shape)
    over = axes(cases, x, len(shape) - 1)
    shifted = make("SUB", [x, make("REDUCE_MAX", [x, over], KEEP)], SubAttrs())
    power = make("EXP", [shifted])
    cases.op("DIV", [power, make("SUM", [power, over], KEEP)], DivAttrs())
    check_rows(cases, target, [ROWS])


@each_width
def test_variance_by_the_mean_of_squares_is_one_kernel(target: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x = cases.data(DType.FLOAT32, (6, 70))
    over = axes(cases, x, 1)
    mean = make("MEAN", [x, over], KEEP)
    squares = make("MEAN", [make("SQUARE", [x]), over], KEEP)
    variance = make("SUB", [squares, make("SQUARE", [mean])], SubAttrs())
    cases.op("MUL", [make("SUB", [x, mean], SubAttrs()), make("RSQRT", [variance])], MulAttrs())
    check_rows(cases, target, [ROWS])


@each_target
def test_powers_that_others_read_are_kept_in_their_result(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (5, 50))
    power = cases.op("EXP", [x])
    total = cases.op("SUM", [power, cases.constant(np.array([1], np.int32))], KEEP)
    cases.op("DIV", [power, total], DivAttrs())
    check_rows(cases, target, [ROWS])


@each_width
def test_rows_of_several_axes(target: str) -> None:
    cases = Cases()
    cases.outputs.append(layer_norm(cases, cases.data(DType.FLOAT32, (3, 4, 5, 6)), -3))
    (op,) = check_rows(cases, target, [ROWS]).ops
    assert isinstance(op.attrs, FusedRowsAttrs)
    assert (op.attrs.shape, op.attrs.kept) == ((3, 4, 5, 6), 1)


@each_width
def test_results_of_rows_are_stored_one_by_one(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (11, 40))
    over = cases.constant(np.array([1], np.int32))
    low, high = (cases.op(f"REDUCE_{kind}", [x, over], KEEP) for kind in ("MIN", "MAX"))
    span = cases.op("SUB", [high, low], SubAttrs())
    cases.op("DIV", [cases.op("SUB", [x, low], SubAttrs()), span], DivAttrs())
    check_rows(cases, target, [ROWS])


def test_rows_are_read_from_wider_pixels() -> None:
    cases = Cases()
    a, b = (cases.data(DType.FLOAT32, (1, 3, 4, 32)) for _ in range(2))
    cases.op("CONCATENATION", [a, layer_norm(cases, b)], ConcatenationAttrs(3))
    check_rows(cases, "native", [ROWS, "CONCATENATION"])


def test_a_reduction_alone_stays_what_it_is() -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (11, 40))
    cases.op("MEAN", [x, cases.constant(np.array([1], np.int32))], KEEP)
    check_rows(cases, "native", ["MEAN"])


def test_outer_axes_are_left_to_the_kernels_for_reductions() -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (40, 40))
    mean = cases.builder.op("MEAN", [x, cases.constant(np.array([0], np.int32))], KEEP)
    cases.op("SUB", [x, mean], SubAttrs())
    check_rows(cases, "native", ["MEAN", "SUB"])
