from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from circlet import Session
from tests.runtime import networks

# Python 3.12 warns of what these tests prove to work.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
CHILD_S = 60


@pytest.fixture(scope="module")
def model() -> bytes:
    return networks.convolutions(24, 16, 3)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return networks.convolutions_input(24, 16)


def answer(session: Session, x: np.ndarray) -> np.ndarray:
    (result,) = session.run([x]).values()
    return result


@pytest.mark.smoke
def test_results_are_the_same_for_any_number_of_threads(model: bytes, x: np.ndarray) -> None:
    wanted = answer(Session(model, threads=1), x)
    for threads in (2, 3, 64):
        np.testing.assert_array_equal(answer(Session(model, threads=threads), x), wanted)


def test_many_threads_may_run_one_session(model: bytes, x: np.ndarray) -> None:
    session = Session(model, threads=2)
    inputs = [x * np.float32(scale) for scale in range(8)]
    wanted = [answer(session, each) for each in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            for got, want in zip(
                pool.map(lambda each: answer(session, each), inputs), wanted, strict=True
            ):
                np.testing.assert_array_equal(got, want)


def test_many_threads_may_open_one_model(model: bytes, x: np.ndarray) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: answer(Session(model, threads=1), x), range(4)))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_two_sessions_of_one_network_outlive_each_other(model: bytes, x: np.ndarray) -> None:
    first, second = Session(model), Session(model)
    wanted = answer(first, x)
    call = second.bind([x])
    del first, second
    call()
    np.testing.assert_array_equal(call.outputs[0], wanted)


def succeeds_in_a_fork(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if not child:
        signal.alarm(CHILD_S)
        try:
            os._exit(0 if check() else 3)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("run_before", [False, True], ids=["before-a-run", "after-a-run"])
def test_a_session_works_on_both_sides_of_a_fork(
    model: bytes, x: np.ndarray, run_before: bool
) -> None:
    wanted = answer(Session(model, threads=1), x)
    session = Session(model, threads=2)
    if run_before:
        answer(session, x)
    assert succeeds_in_a_fork(lambda: np.array_equal(answer(session, x), wanted))
    np.testing.assert_array_equal(answer(session, x), wanted)


def test_a_bound_call_works_in_a_fork(model: bytes, x: np.ndarray) -> None:
    call = Session(model, threads=2).bind([x])
    call()
    wanted = call.outputs[0].copy()

    def check() -> bool:
        call.outputs[0][...] = 0
        call()
        return np.array_equal(call.outputs[0], wanted)

    assert succeeds_in_a_fork(check)


def run_in_child(model: bytes, x: np.ndarray) -> np.ndarray:
    return answer(Session(model, threads=2), x)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_worker_processes_open_and_run_networks(method: str, model: bytes, x: np.ndarray) -> None:
    wanted = answer(Session(model), x)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for result in pool.starmap(run_in_child, [(model, x)] * 2):
            np.testing.assert_array_equal(result, wanted)
