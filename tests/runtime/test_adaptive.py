"""Adaptive sessions: moves under a load and a limit, without a request lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from circlet import AdaptiveSession, Session
from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType, Model
from circlet.ops.build import builder
from circlet.runtime.front import Pace
from tests.runtime.networks import relu
from tests.runtime.test_state import graph as recurrent_graph

POINTS: list[dict[str, Any]] = [
    {"threads": 1, "executor": "linear"},
    {"threads": 2, "executor": "parallel"},
]
GIVEN = [np.linspace(-1, 1, 6, dtype=np.float32)]
PACE = Pace(samples=3, calm_s=1.0, longest_s=5.0)


class Machine:
    """A clock that runs of sessions move on, by the threads of their point and a load."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.load = 0.0, 1.0
        self._plain = Session.run
        monkeypatch.setattr(Session, "run", lambda own, *args, **more: self.run(own, *args, **more))

    def run(self, session: Session, *args: object, **more: object) -> dict[str, np.ndarray]:
        self.now += self.load * 0.010 / session.threads
        return self._plain(session, *args, **more)  # type: ignore[arg-type]

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def serve_until(session: AdaptiveSession, holds: Callable[[], bool]) -> None:
    """Ask again and again; points are opened by another thread meanwhile."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        (got,) = session.run(GIVEN).values()
        np.testing.assert_array_equal(got, np.maximum(GIVEN[0], 0))
        time.sleep(0.0001)


@pytest.fixture
def session(machine: Machine) -> Iterator[AdaptiveSession]:
    yield AdaptiveSession(relu(), POINTS, target_ms=15, pace=PACE, clock=machine)


def test_it_moves_along_the_front_and_back(session: AdaptiveSession, machine: Machine) -> None:
    for _ in range(50):
        assert session.run_on_point(GIVEN)[1] == 0
    assert session.open_points == [0]  # nothing is opened before it is needed
    machine.load = 2.0
    serve_until(session, lambda: session.point == 1)
    assert session.run_on_point(GIVEN)[1] == 1
    machine.load = 1.0
    serve_until(session, lambda: session.point == 0)
    moves = [(move.source, move.target, move.why) for move in session.moves]
    assert moves == [(0, 1, "latency"), (1, 0, "calm")]
    assert session.moves[0].latency_ms == pytest.approx(20)


def test_a_memory_limit_moves_it_and_drops_points(machine: Machine) -> None:
    points = [{**POINTS[0], "memory_bytes": 1000}, {**POINTS[1], "memory_bytes": 100}]
    session = AdaptiveSession(relu(), points, target_ms=15, pace=PACE, clock=machine)
    session.memory_limit = 500
    serve_until(session, lambda: session.point == 1)
    assert session.open_points == [1]
    session.memory_limit = 50  # nothing fits: the smallest stays
    session.run(GIVEN)
    assert session.point == 1
    session.memory_limit = None
    serve_until(session, lambda: session.point == 0)
    assert session.open_points == [0, 1]
    session.memory_limit = 1050
    assert session.open_points == [0]
    assert [move.why for move in session.moves] == ["memory", "calm"]


def test_a_request_ends_on_the_point_where_it_began(
    session: AdaptiveSession, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, gate = threading.Event(), threading.Event()
    found: list[int] = []

    def wait(seen: object) -> None:
        inside.set()
        assert gate.wait(60)

    def slow() -> None:
        found.append(session.run_on_point(GIVEN, observer=wait)[1])

    thread = threading.Thread(target=slow)
    thread.start()
    assert inside.wait(60)
    machine.load = 2.0
    serve_until(session, lambda: session.point == 1)
    assert found == []
    gate.set()
    thread.join()
    assert found == [0]


def test_many_threads_lose_nothing_while_it_moves(
    session: AdaptiveSession, machine: Machine
) -> None:
    answers: list[bool] = []
    stop, answered = threading.Event(), threading.Semaphore(0)

    def ask() -> None:
        while not stop.is_set():
            (got,) = session.run(GIVEN).values()
            answers.append(np.array_equal(got, np.maximum(GIVEN[0], 0)))
            answered.release()

    users = [threading.Thread(target=ask) for _ in range(3)]
    for user in users:
        user.start()
    for load in (3.0, 0.5, 3.0):
        machine.load = load
        assert all(answered.acquire(timeout=60) for _ in range(100))
    stop.set()
    for user in users:
        user.join()
    assert answers and all(answers)


def test_a_point_that_does_not_open_is_left_out(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    points = [POINTS[0], {"backends": ["missing"]}, POINTS[1]]
    session = AdaptiveSession(relu(), points, target_ms=15, pace=PACE, clock=machine)
    machine.load = 2.0
    serve_until(session, lambda: session.point == 2)
    assert "point 1 cannot be opened" in caplog.text


def test_arguments_that_do_not_fit_have_a_code() -> None:
    with pytest.raises(InputError, match="no point"):
        AdaptiveSession(relu(), [], target_ms=1)
    with pytest.raises(InputError, match="no argument of Session") as caught:
        AdaptiveSession(relu(), [{"thread": 1}], target_ms=1)
    assert caught.value.where == "points[0]"
    with pytest.raises(InputError, match="not positive"):
        AdaptiveSession(relu(), POINTS, target_ms=0)
    with pytest.raises(InputError, match="target_ms"):
        AdaptiveSession(relu(), POINTS, target_ms="1")  # type: ignore[arg-type]


def test_a_network_with_state_is_refused() -> None:
    source = dumps(Model([recurrent_graph()]), "tflite")
    with pytest.raises(InputError, match="state cannot move"):
        AdaptiveSession(source, POINTS, target_ms=1)


def test_points_of_other_sizes_are_left_out(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    b = builder()
    source = dumps(
        b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (6,))], name="y")).model(), "tflite"
    )
    points = [POINTS[0], {"shapes": {"x": (7,)}}, POINTS[1]]
    session = AdaptiveSession(source, points, target_ms=15, pace=PACE, clock=machine)
    machine.load = 2.0
    serve_until(session, lambda: session.point == 2)
    assert "different networks" in caplog.text
