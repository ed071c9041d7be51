"""Native recurrent layers give what the records give, run after run, and leave the same state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.ir import DType, Graph
from circlet.ops.state import initial_value, variables
from circlet.plan.partition import partition
from tests.backends.cpu.cases import each_target
from tests.backends.cpu.harness import runnable, runtime
from tests.recurrent import Lstm, lstm_graph, run_records, side_by_side, steps_for, svdf_graph

RUNS = 3
SVDF_SIZES: tuple[tuple[int, int, int, int, int], ...] = (
    (1, 16, 64, 1, 8),
    (2, 5, 3, 4, 33),
    (3, 1, 17, 2, 1),
)

SHAPES = (
    Lstm(),
    Lstm((3, 4, 33, 50, 50)),
    Lstm((2, 3, 1, 1, 1)),
    Lstm((1, 2, 5, 130, 130), time_major=True),
    Lstm((2, 3, 7, 20, 9), clips=(0.4, 0.3)),
    Lstm((2, 3, 6, 20, 20), has_input=False),
    Lstm((2, 3, 6, 20, 20), look=True),
    Lstm((2, 3, 6, 16, 16), norm=True),
    Lstm((2, 1, 6, 20, 33), look=True, norm=True, sequence=False),
    Lstm((1, 3, 6, 18, 7), has_input=False, look=True, norm=True, time_major=True),
)
FLOAT_ONLY = tuple(Lstm(activation=name) for name in ("NONE", "RELU", "RELU6"))
STORED_ONLY = tuple(Lstm(cell_exponent=exponent) for exponent in (-15, -14, -12))


def _run_native(
    graph: Graph, steps: Sequence[Sequence[np.ndarray]], name: str
) -> list[list[np.ndarray]]:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    compiled = compile_partition(whole, target, 1)
    images = compile_units([UnitSource(text, target) for text in compiled.units])
    state = {tensor: initial_value(tensor) for tensor in variables(graph)}
    data = {tensor: array.copy() for tensor, array in zip(graph.inputs, steps[0], strict=True)}
    made = {t: np.zeros(t.static_shape, t.dtype.numpy) for t in whole.outputs}
    arrays = [(data | state)[tensor] for tensor in whole.inputs]
    executable = Executable(runtime(), compiled.plan, compiled.constants, images)
    binding, rows = Binding(executable, arrays, list(made.values()), 2), []
    for step in steps:
        for array, values in zip(data.values(), step, strict=True):
            array[...] = values
        binding.run()
        results = [made[tensor] for tensor in graph.outputs]
        rows.append([array.copy() for array in (*results, *state.values())])
    return rows


def check_runs(graphs: Sequence[Graph], target: str) -> None:
    """Compare several runs of networks side by side with the records'."""
    graph = side_by_side(graphs)
    steps = steps_for(graph, RUNS)
    for native, wanted in zip(
        _run_native(graph, steps, target), run_records(graph, steps), strict=True
    ):
        for got, expected in zip(native, wanted, strict=True):
            if got.dtype.kind != "f":
                np.testing.assert_array_equal(got, expected)
            else:
                scale = max(1.0, float(np.abs(expected).max()))
                np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=1e-5)


@each_target
def test_float_lstm_equals_the_record(target: str) -> None:
    check_runs([lstm_graph(form) for form in (*SHAPES, *FLOAT_ONLY)], target)


@each_target
def test_hybrid_lstm_equals_the_record(target: str) -> None:
    forms = [
        replace(form, weights=weights, asymmetric=asymmetric)
        for form in SHAPES
        for weights, asymmetric in ((DType.INT8, False), (DType.UINT8, True))
    ]
    check_runs([lstm_graph(form) for form in forms], target)


@each_target
def test_stored_lstm_equals_the_record(target: str) -> None:
    forms = [replace(form, stored=True) for form in (*SHAPES, *STORED_ONLY)]
    check_runs([lstm_graph(form) for form in forms], target)


@each_target
def test_svdf_equals_the_record(target: str) -> None:
    graphs = [
        svdf_graph(sizes, dtype, bias=sizes[0] != 2)
        for sizes in SVDF_SIZES
        for dtype in (DType.FLOAT32, DType.INT8, DType.INT16)
    ]
    check_runs(graphs, target)


@each_target
def test_svdf_over_narrow_weights_equals_the_record(target: str) -> None:
    graphs = [
        svdf_graph(sizes, DType.FLOAT32, weights=weights, asymmetric=asymmetric)
        for sizes in SVDF_SIZES
        for weights, asymmetric in ((DType.INT8, False), (DType.UINT8, True))
    ]
    check_runs(graphs, target)
