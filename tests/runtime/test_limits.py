"""The limits that a caller sets hold while a network is opened and while it runs."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.artifact.file import MAGIC
from circlet.compiler.compile import compile_model
from circlet.errors import DeadlineError, LimitError
from circlet.limits import Limits
from circlet.options import Options
from tests.attacks import endless_loop, growing_loop, growth
from tests.runtime import networks
from tests.runtime.long_operators import CASES

each_backend = pytest.mark.parametrize("backend", ["cpu", "reference"])
X = np.ones(6, np.float32)


def opened(model: bytes, backend: str, limits: Limits) -> Session:
    if model[:8] == MAGIC:
        return Session(model, threads=1, limits=limits)
    return Session(model, backends=(backend, "reference"), threads=1, limits=limits)


@each_backend
def test_a_loop_without_end_stops_at_the_limit_of_turns(backend: str) -> None:
    session = opened(endless_loop.make(), backend, Limits(loop_turns=50))
    with pytest.raises(LimitError, match="loop"):
        session.run([np.zeros((1, 4), np.float32)])


@each_backend
def test_a_loop_stops_at_the_limit_of_work(backend: str) -> None:
    limits = Limits(run_work=10**9, run_work_per_file_byte=0)  # of ten turns
    session = Session(CASES["loop"](), backends=(backend, "reference"), limits=limits)
    with pytest.raises(LimitError, match="more work"):
        session.run([np.zeros(session.inputs[0].shape, np.float32)])


@each_backend
def test_a_run_stops_at_the_limit_of_time(backend: str) -> None:
    session = opened(endless_loop.make(), backend, Limits(run_seconds=0.05))
    x = np.zeros((1, 4), np.float32)
    with pytest.raises(DeadlineError):
        session.run([x])
    with pytest.raises(DeadlineError):
        session.bind([x])()


@each_backend
def test_a_timeout_takes_the_place_of_the_limit_of_time(backend: str) -> None:
    session = opened(networks.relu(), backend, Limits(run_seconds=1e-9))
    assert session.run([X], timeout=100)["y"].sum() == 6
    with pytest.raises(DeadlineError):
        session.run([X])


SMALL = Limits(memory_bytes=1 << 20, memory_per_file_byte=0)
FLOATS = 1 << 18  # of a MiB


@each_backend
@pytest.mark.parametrize("kind", ["outputs", "inputs", "between"])
def test_arrays_above_the_limit_of_memory_are_refused_at_opening(backend: str, kind: str) -> None:
    with pytest.raises(LimitError, match="memory_bytes"):
        session = opened(growth.wide_results(2, FLOATS, kind), backend, SMALL)
        session.run([np.zeros(value.shape, value.dtype) for value in session.inputs])


@each_backend
def test_what_fits_the_limit_of_memory_runs(backend: str) -> None:
    session = opened(growth.wide_results(2, FLOATS // 8, "between"), backend, SMALL)
    assert sum(array.sum() for array in session.run([np.ones(1, np.float32)] * 2).values()) == 2


def test_a_size_that_a_run_decides_is_checked_before_memory_is_taken() -> None:
    session = opened(growth.given_size(), "cpu", SMALL)
    assert session.run([np.array([9], np.int32)])["filled"].sum() == 9
    with pytest.raises(LimitError, match="where: filled"):
        session.run([np.array([FLOATS], np.int32)])


def test_what_numpy_takes_besides_counts() -> None:
    elements = (1 << 20) // 40  # sums of bytes take 88 for each element
    with pytest.raises(LimitError, match="to compute them"):
        opened(growth.wide_steps(elements), "reference", SMALL).run([np.zeros(1, np.int8)])


def test_variables_of_a_loop_count_while_it_turns() -> None:
    session = opened(growing_loop.make(), "reference", SMALL)
    with pytest.raises(LimitError, match="memory_bytes"):
        session.run([np.zeros(1, np.float32)])


@each_backend
def test_an_artifact_keeps_to_the_limit_of_those_who_open_it(backend: str) -> None:
    options = Options(backends=(backend, "reference"))
    artifact = compile_model(growth.wide_results(2, FLOATS), options)
    load_artifact(artifact, limits=Limits()).run([np.ones(1, np.float32)] * 2)
    with pytest.raises(LimitError, match="memory_bytes"):
        load_artifact(artifact, limits=SMALL)


@each_backend
def test_another_size_keeps_to_the_limit_of_memory(backend: str) -> None:
    session = opened(networks.relu(), backend, SMALL)
    with pytest.raises(LimitError, match="memory_bytes"):
        session.resized({"x": (FLOATS,)})


def test_a_resized_session_keeps_its_limits() -> None:
    session = opened(networks.relu(), "reference", Limits(tensor_bytes=100))
    with pytest.raises(LimitError):
        session.resized({"x": (1000,)})
