"""Runs a graph through the native compiler and compares it with the operator records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.loader import Runtime
from circlet.backends.cpu.toolchain import UnitSource, compile_unit, compile_units
from circlet.ir import Graph
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.state import initial_value, variables
from circlet.plan.partition import partition
from circlet.target.targets import Target, missing_on_host, parse_target
from tests.tiers import slow

# The quick run tries each family of kernels at 256 bits too (AND_V3), and what only puts kernels
# together in other ways on this machine alone.
TARGETS = ("native", *slow("x86_64+v3", "generic"))
AND_V3 = ("native", "x86_64+v3", *slow("generic"))
AND_V4 = (*AND_V3, *slow("x86_64+v4"))  # 512 bits without VNNI


@lru_cache(maxsize=4)
def runtime() -> Runtime:
    """The runtime library, built once for all tests of a process."""
    return Runtime(compile_unit('#include "circlet_runtime.c"', parse_target("generic")))


def runnable(name: str) -> Target | None:
    """A target by name, or None where this CPU lacks something it needs."""
    target = parse_target(name)
    return None if missing_on_host(target) else target


def run_native(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    target: Target | str = "native",
    threads: int = 1,
    precision: str = "f32",
) -> list[np.ndarray]:
    """Outputs of a graph that runs entirely natively; PlacementError where it cannot."""
    chosen = parse_target(target) if isinstance(target, str) else target
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    compiled = compile_partition(whole, chosen, 1, precision=precision)
    images = compile_units([UnitSource(text, chosen) for text in compiled.units])
    executable = Executable(runtime(), compiled.plan, compiled.constants, images)
    given = {tensor: initial_value(tensor) for tensor in variables(graph)}
    given |= dict(zip(graph.inputs, inputs, strict=True))
    made = {t: np.zeros(t.static_shape, t.dtype.numpy) for t in whole.outputs}
    arrays = [np.ascontiguousarray(given[t]) for t in whole.inputs]
    Binding(executable, arrays, list(made.values()), threads).run()
    return [made[t] for t in graph.outputs]


def check_native(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    target: Target | str = "native",
    threads: int = 1,
    tolerance: float = 1e-5,
) -> None:
    """Assert that native results equal the records': integers bit for bit, floats closely."""
    check_results(graph, inputs, run_native(graph, inputs, target, threads), tolerance)


def check_results(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    tolerance: float = 1e-5,
) -> None:
    """Assert that results equal the records': integers bit for bit, floats closely."""
    for tensor, got, wanted in zip(
        graph.outputs, results, evaluate_graph(graph, inputs), strict=True
    ):
        if tensor.dtype.is_float:
            error = np.abs(got.astype(np.float64) - wanted).max(initial=0)
            scale = max(1.0, float(np.abs(wanted).max(initial=0)))
            assert error / scale <= tolerance, f"{tensor}: {error / scale:g} > {tolerance:g}"
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=str(tensor))
