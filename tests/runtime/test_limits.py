"""The limits that a caller sets hold while a network is opened and while it runs."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import DeadlineError, LimitError
from circlet.limits import Limits
from tests.attacks import endless_loop
from tests.runtime import networks
from tests.runtime.long_operators import CASES

each_backend = pytest.mark.parametrize("backend", ["cpu", "reference"])
X = np.ones(6, np.float32)


def opened(model: bytes, backend: str, limits: Limits) -> Session:
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


def test_a_resized_session_keeps_its_limits() -> None:
    session = opened(networks.relu(), "reference", Limits(tensor_bytes=100))
    with pytest.raises(LimitError):
        session.resized({"x": (1000,)})
