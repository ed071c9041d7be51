"""Runs graphs on the OpenCL device of this machine, all of them and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from circlet.backends.base import CompileJob, Runner
from circlet.backends.opencl.backend import OpenClBackend
from circlet.errors import BackendError
from circlet.ir import Graph
from circlet.limits import DEFAULT_LIMITS
from circlet.options import Options
from circlet.placement.interface import Reason
from circlet.plan.partition import partition
from circlet.target.targets import native_target
from tests.backends.cpu.cases import Cases
from tests.backends.cpu.harness import check_results


@cache
def missing() -> str:
    """Why nothing can run here, or ""."""
    if find_spec("pyopencl") is None:
        return "pyopencl is not installed"
    try:
        OpenClBackend().diagnose()
    except BackendError as error:
        return error.what
    return ""


@pytest.fixture
def device() -> None:
    """Skips a test where there is no OpenCL device."""
    if missing():
        pytest.skip(missing())


def job() -> CompileJob:
    """What a session of this machine compiles for."""
    return CompileJob(Options(), (native_target(),))


def bound(graph: Graph, inputs: Sequence[np.ndarray]) -> tuple[Runner, list[np.ndarray]]:
    """A graph on the device as one partition, and the arrays that it writes.

    Every op must be taken.
    """
    backend = OpenClBackend()
    compiler = backend.compiler(job())
    answers = {op: compiler.supports(op) for op in graph.ops}
    refused = {op.name: answer.text for op, answer in answers.items() if isinstance(answer, Reason)}
    assert not refused, refused
    (part,) = partition(graph, dict.fromkeys(graph.ops, "opencl"))
    (compiled,) = compiler.compile([part]).partitions
    loaded = backend.load(next(iter(compiled.codes.values())), b"", DEFAULT_LIMITS)
    given = [np.ascontiguousarray(inputs[graph.inputs.index(tensor)]) for tensor in part.inputs]
    made = {t: np.empty(t.static_shape, t.dtype.numpy) for t in part.outputs}
    runner = loaded.bind(given, list(made.values()), 1)
    return runner, [made[tensor] for tensor in graph.outputs]


def check(cases: Cases, tolerance: float = 1e-5) -> None:
    """Compare a table of cases with their records: integers bit for bit."""
    graph = cases.graph()
    runner, results = bound(graph, cases.inputs)
    runner.run()
    check_results(graph, cases.inputs, results, tolerance)
