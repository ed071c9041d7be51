"""Variable tensors live from run to run in a session, and in each bound call by itself."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model
from tests.corpora import corpus
from tests.recurrent import Lstm, lstm_graph, run_records, side_by_side, steps_for, svdf_graph

STEPS = 4


def graph() -> Graph:
    stored = lstm_graph(Lstm((1, 1, 6, 20, 20), stored=True))
    return side_by_side([stored, svdf_graph((1, 5, 3, 2, 4), DType.INT8)])


@pytest.fixture(scope="module", params=["cpu", "reference"])
def session(request: pytest.FixtureRequest) -> Session:
    return Session(dumps(Model([graph()]), "tflite"), backends=(request.param, "reference"))


def wanted(steps: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    return [row[:2] for row in run_records(graph(), steps)]


def assert_same(rows: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> None:
    for row, other in zip(rows, expected, strict=True):
        for array, right in zip(row, other, strict=True):
            np.testing.assert_array_equal(array, right)


def test_runs_go_on_from_the_state_before_until_it_is_reset(session: Session) -> None:
    assert session.is_stateful
    steps = steps_for(graph(), STEPS)
    for _ in range(2):
        session.reset()
        assert_same([list(session.run(step).values()) for step in steps], wanted(steps))


def test_bound_calls_have_states_of_their_own(session: Session) -> None:
    steps = steps_for(graph(), STEPS)
    session.run(steps[0])
    calls = [session.bind([array.copy() for array in steps[0]]) for _ in range(2)]
    for call, count in zip(calls, (2, 1), strict=True):
        for _ in range(count):
            call()
    expected = wanted([steps[0]] * 2)
    assert_same([list(calls[0].outputs), list(calls[1].outputs)], expected[::-1])
    calls[0].reset()
    calls[0].run()
    assert_same([list(calls[0].outputs)], expected[:1])


def test_threads_take_turns_on_one_state(session: Session) -> None:
    (step,) = steps_for(graph(), 1)
    session.reset()
    rows: list[list[np.ndarray]] = []

    def run() -> None:
        rows.append(list(session.run(step).values()))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def key(row: list[np.ndarray]) -> bytes:
        return b"".join(array.tobytes() for array in row)

    assert sorted(map(key, rows)) == sorted(map(key, wanted([step] * 6)))


def test_a_state_shared_by_two_operators_keeps_their_order() -> None:
    first = lstm_graph(Lstm((1, 1, 6, 20, 20)), seed=1)
    second = lstm_graph(Lstm((1, 1, 6, 20, 20)), seed=2)
    second.ops[0].inputs[18:20] = first.ops[0].inputs[18:20]
    second.tensors = [t for t in second.tensors if not t.is_variable]
    both = side_by_side([first, second])
    steps = steps_for(both, STEPS)
    shared = Session(dumps(Model([both]), "tflite"))
    for step, row in zip(steps, run_records(both, steps), strict=True):
        for got, expected in zip(shared.run(step).values(), row, strict=False):
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_a_network_without_variables_has_no_state() -> None:
    plain = Session(corpus("models/mobilenet_v1_0.25_128_quant.tflite"))
    assert not plain.is_stateful
    plain.reset()
