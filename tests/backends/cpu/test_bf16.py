"""Float products over operands rounded to bfloat16: their exact values, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats import bf16, float_matrix
from circlet.backends.cpu.lower.floats.bf16 import pairs, to_bf16
from circlet.ir import DType, Graph
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu import test_attention as attention
from tests.backends.cpu.cases import Cases, SideBySide
from tests.backends.cpu.harness import AND_V4, TARGETS, run_native, runnable
from tests.backends.cpu.test_float_conv import CASES, _network, _values
from tests.tiers import quick_of, slow

Floats = np.ndarray
each_target = pytest.mark.parametrize("target", AND_V4)
AND_512 = (*TARGETS, *slow("x86_64+v4"))


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even the smallest products round their operands."""
    monkeypatch.setattr(bf16, "_STEP_CYCLES", -np.inf)


def rounded(values: Floats) -> Floats:
    """Floats that are bfloat16 numbers."""
    return (to_bf16(values).astype(np.uint32) << np.uint32(16)).view(np.float32)


def dense(rows: int, depth: int, units: int, fused: str = "NONE") -> Graph:
    """One fully connected layer."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (rows, depth))
    w, bias = b.constant("w", _values(1, units, depth)), b.constant("b", _values(2, units))
    return b.output(b.op("FULLY_CONNECTED", [x, w, bias], FullyConnectedAttrs(fused))).build()


def sums_of(graph: Graph, x: Floats) -> Floats:
    """What the kernels compute: the odd element of each pair first, one rounding each."""
    w, bias = (np.asarray(tensor.data) for tensor in graph.ops[0].inputs[1:])  # type: ignore[union-attr]
    even = ((0, 0), (0, x.shape[1] % 2))
    x, w = np.pad(rounded(x), even), np.pad(rounded(w), even)
    sums = np.broadcast_to(bias, (len(x), len(w))).astype(np.float32)
    for pair in range(0, x.shape[1], 2):
        for k in (pair + 1, pair):
            sums = sums + x[:, k : k + 1] * w[:, k]
    return sums


@each_target
@pytest.mark.parametrize(("rows", "depth", "units"), [(1, 37, 70), (13, 64, 19), (30, 5, 200)])
def test_sums_of_vectors_are_those_of_the_rule(
    rows: int, depth: int, units: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    monkeypatch.setattr(float_matrix, "takes_tiles", lambda *_: False)
    graph, x = dense(rows, depth, units), _values(3, rows, depth)
    (got,) = run_native(graph, [x], target, precision="bf16")
    np.testing.assert_array_equal(got, sums_of(graph, x))


FORMS = ("point", "point_strided", "three", "first_layer", "dilated", "few_filters", "grouped")
CONVOLUTIONS = SideBySide(CASES, _network, apart=FORMS, precision="bf16")


@each_target
@pytest.mark.parametrize("case", quick_of(CASES, FORMS))
def test_convolutions_equal_the_record_over_rounded_operands(case: str, target: str) -> None:
    graph, (x,) = _network(case)
    (got,) = CONVOLUTIONS.outputs(case, target)
    filters = graph.ops[0].inputs[1]
    assert filters is not None and filters.data is not None
    filters.data = rounded(np.asarray(filters.data))
    (wanted,) = evaluate_graph(graph, [rounded(x)])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@each_target
def test_products_of_computed_matrices_equal_the_record_over_rounded_ones(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = Cases()
    for first, second, adjoint in (
        ((2, 33, 20), (2, 20, 70), False),
        ((1, 30, 65), (3, 65, 50), False),
        ((2, 19, 33), (2, 50, 33), True),
    ):
        x, y = (cases.data(DType.FLOAT32, shape, scale=1) for shape in (first, second))
        cases.op("BATCH_MATMUL", [x, y], BatchMatMulAttrs(adj_y=adjoint))
    graph = cases.graph()
    results = run_native(graph, cases.inputs, target, 2, "bf16")
    for got, wanted in zip(
        results, evaluate_graph(graph, list(map(rounded, cases.inputs))), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


ATTENTION = SideBySide(
    attention.CASES, attention._network, apart=attention.PARTS, threads=2, precision="bf16"
)


@pytest.mark.parametrize("target", AND_512)
@pytest.mark.parametrize("case", quick_of(attention.CASES, attention.PARTS))
def test_attention_is_near_the_record_over_rounded_operands(case: str, target: str) -> None:
    cases, _ = attention._attention(attention.CASES[case])
    graph = cases.graph()
    (got,) = ATTENTION.outputs(case, target)
    q, k, v, *mask = cases.inputs
    (wanted,) = evaluate_graph(graph, [*map(rounded, (q, k, v)), *mask])
    powers = 2.0**-8  # their rounding errors; a row of them weighs v
    assert np.abs(got - wanted).max() <= powers * np.abs(v).max()


@each_target
def test_numbers_are_rounded_to_the_nearest(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    bits = np.random.default_rng(1).integers(0, 1 << 32, 999, np.uint32)
    special = [1.00390625, 1.01171875, 3.4e38, np.inf, -np.inf, np.nan, -0.0, 1e-39, 1.1754942e-38]
    x = np.concatenate([bits.view(np.float32), np.array(special, np.float32)]).reshape(-1, 1)
    b = builder()
    source = b.input("x", DType.FLOAT32, x.shape)
    one = b.constant("w", np.ones((40, 1), np.float32))
    graph = b.output(b.op("FULLY_CONNECTED", [source, one, None], FullyConnectedAttrs())).build()
    (got,) = run_native(graph, [x], target, precision="bf16")
    np.testing.assert_array_equal(got[:, 0], rounded(x)[:, 0] + np.float32(0))


def test_pairs_hold_the_first_neighbour_in_the_lower_half() -> None:
    words = pairs(np.array([[1, 2, -1]], np.float32))
    np.testing.assert_array_equal(words, np.array([[0x40003F80, 0x0000BF80]], np.uint32))


def test_threads_do_not_change_sums() -> None:
    graph, x = dense(64, 96, 130, "RELU6"), _values(5, 64, 96)
    cases, _ = attention._attention(attention.CASES["long"])
    for network, inputs in ((graph, [x]), (attention._fused(cases.graph()), cases.inputs)):
        (one,), (two,) = (run_native(network, inputs, "native", n, "bf16") for n in (1, 2))
        assert one.tobytes() == two.tobytes()
