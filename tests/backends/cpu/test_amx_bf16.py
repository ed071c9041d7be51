"""Float products over bfloat16 on AMX tiles, through plain C that does what the instructions do."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.lower.floats import bf16
from circlet.ir import Graph
from circlet.ops.evaluate import evaluate_graph
from circlet.plan.partition import partition
from circlet.target.targets import Target
from tests.backends.cpu.harness import run_native, runnable
from tests.backends.cpu.test_amx import emulated
from tests.backends.cpu.test_bf16 import dense, rounded
from tests.backends.cpu.test_float_conv import _attrs, _conv, _values

POINT, THREE = (1, 1), (3, 3)
CONVS = {
    "point": ((1, 9, 9, 64), (48, *POINT, 64), _attrs(fused="RELU6")),
    "odd_depth": ((1, 8, 9, 75), (33, *POINT, 75), _attrs()),
    "window": ((2, 7, 37, 24), (40, *THREE, 24), _attrs()),
    "strided": ((1, 9, 40, 32), (20, *THREE, 32), _attrs("VALID", stride=2)),
    "dilated": ((1, 12, 18, 32), (70, *THREE, 32), _attrs(dilation=2)),
    "short_runs": ((1, 12, 18, 16), (64, *THREE, 16), _attrs(dilation=2)),
}
NAMES = ["x86_64+v3", "x86_64+v4"]


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even the smallest products round their operands."""
    monkeypatch.setattr(bf16, "_STEP_CYCLES", -np.inf)


def with_tiles(name: str) -> Target:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    return Target.of(target.arch, (*target.features, "amx_bf16"))


def kernels(graph: Graph, target: Target) -> set[str]:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    compiled = compile_partition(whole, target, 1, precision="bf16")
    return {call.kernel.function for call in compiled.calls if call is not None}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CONVS)
def test_tiles_are_near_the_record_over_rounded_operands(case: str, name: str) -> None:
    image, weights, attrs = CONVS[case]
    graph, x, target = _conv(image, weights, attrs), _values(3, *image), with_tiles(name)
    assert "amx_conv_bf16" in kernels(graph, target)
    (got,) = emulated(graph, [x], name, target, "bf16")
    filters = graph.ops[0].inputs[1]
    assert filters is not None and filters.data is not None
    filters.data = rounded(np.asarray(filters.data))
    (wanted,) = evaluate_graph(graph, [rounded(x)])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "depth", "units"), [(9, 64, 100), (50, 130, 33)])
def test_rows_on_tiles_are_near_those_of_vectors(
    rows: int, depth: int, units: int, name: str
) -> None:
    graph, x, target = dense(rows, depth, units, "RELU"), _values(3, rows, depth), with_tiles(name)
    assert "amx_conv_bf16" in kernels(graph, target)
    (got,) = emulated(graph, [x], name, target, "bf16", threads=2)
    (wanted,) = run_native(graph, [x], precision="bf16")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_grouped_and_few_pixels_stay_on_vectors() -> None:
    target = with_tiles(NAMES[0])
    grouped = _conv((1, 9, 9, 64), (64, *THREE, 32), _attrs())
    for graph in (grouped, dense(1, 64, 100)):
        assert "amx_conv_bf16" not in kernels(graph, target)
