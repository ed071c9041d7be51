from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CancelledError, CircletError, DeadlineError
from tests.runtime import networks

SIZE, CHANNELS, DEPTH = 96, 64, 60
each_backend = pytest.mark.parametrize("backend", ["cpu", "reference"])


@pytest.fixture(scope="module")
def long_model() -> bytes:
    return networks.convolutions(SIZE, CHANNELS, DEPTH)


@pytest.fixture
def session(long_model: bytes, backend: str) -> Session:
    return Session(long_model, backends=(backend, "reference"), threads=2)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return networks.convolutions_input(SIZE, CHANNELS)


@each_backend
def test_a_run_past_its_timeout_is_stopped(session: Session, x: np.ndarray) -> None:
    start = time.process_time()  # which other work on the machine does not lengthen
    with pytest.raises(DeadlineError):
        session.run([x], timeout=0.002)
    assert time.process_time() - start < 10


def test_a_session_works_after_a_timeout() -> None:
    session = Session(networks.convolutions(), threads=2)
    x = networks.convolutions_input()
    wanted = session.run([x])["conv3"]
    with pytest.raises(DeadlineError):
        session.run([x], timeout=1e-9)
    np.testing.assert_array_equal(session.run([x], timeout=100)["conv3"], wanted)


def fails_with(call: Callable[[], object], stop: Callable[[], None]) -> list[str]:
    """The code of the error that a call in another thread ends with while `stop` is repeated."""
    codes = []

    def target() -> None:
        try:
            call()
        except CircletError as error:
            codes.append(error.code)

    thread = threading.Thread(target=target)
    thread.start()
    while thread.is_alive():
        stop()
        time.sleep(0.001)
    thread.join()
    return codes


@each_backend
def test_a_run_is_cancelled_from_another_thread(session: Session, x: np.ndarray) -> None:
    assert fails_with(lambda: session.run([x]), session.cancel) == [CancelledError.code]


@each_backend
def test_a_bound_call_is_cancelled_from_another_thread(session: Session, x: np.ndarray) -> None:
    call = session.bind([x])
    assert fails_with(call, call.cancel) == [CancelledError.code]


def test_cancelling_an_idle_session_does_not_touch_later_runs() -> None:
    session = Session(networks.relu())
    x = np.ones(6, np.float32)
    session.cancel()
    assert session.run([x])["y"].sum() == 6
    session.cancel()
    assert session.run([x])["y"].sum() == 6


def test_a_call_that_was_cancelled_while_idle_runs() -> None:
    call = Session(networks.relu()).bind([np.ones(6, np.float32)])
    call.cancel()
    call()
    assert call.outputs[0].sum() == 6
