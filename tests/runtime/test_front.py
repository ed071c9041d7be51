"""The controller of an adaptive session, under loads and limits that come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from circlet.runtime.front import FrontController, Pace

PACE = Pace(samples=4, calm_s=2.0, longest_s=40.0)
SPEEDS = (10.0, 6.0, 3.0)  # milliseconds of each point on an idle machine
ALL = range(len(SPEEDS))


class Machine:
    """Requests one after the other, on points whose latencies a load multiplies."""

    def __init__(self, target_ms: float = 12.0, speeds: tuple[float, ...] = SPEEDS) -> None:
        self.controller = FrontController(len(speeds), target_ms, PACE)
        self.speeds, self.now, self.point = speeds, 0.0, 0
        self.moves: list[tuple[int, int, str]] = []

    def serve(
        self,
        seconds: float,
        load: Callable[[float], float] = lambda now: 1.0,
        allowed: Collection[int] = ALL,
    ) -> None:
        end = self.now + seconds
        while self.now < end:
            ms = self.speeds[self.point] * load(self.now)
            self.now += ms / 1e3 + 0.02
            self.controller.record(self.point, ms, self.now)
            wish = self.controller.wish(self.now, allowed)
            if wish is not None:
                self.moves.append((self.point, wish.point, wish.why))
                self.point = wish.point
                self.controller.moved(self.point, self.now, wish.why)


def test_an_idle_machine_stays_on_the_first_point() -> None:
    machine = Machine()
    machine.serve(60)
    assert machine.moves == []


def test_a_load_moves_it_away_and_its_end_back() -> None:
    machine = Machine()
    machine.serve(5)
    machine.serve(10, load=lambda now: 1.8)
    assert machine.point == 1
    machine.serve(10, load=lambda now: 3.5)
    assert machine.point == 2
    machine.serve(90)
    assert machine.point == 0
    assert machine.moves[:2] == [(0, 1, "latency"), (1, 2, "latency")]
    assert {why for *_, why in machine.moves[2:]} == {"calm"}


def test_it_does_not_go_back_and_forth_under_a_steady_load() -> None:
    machine = Machine()
    machine.serve(PACE.longest_s - 1, load=lambda now: 1.3)
    assert machine.moves == [(0, 1, "latency")]
    machine.serve(600, load=lambda now: 1.3)  # it looks once in a long while
    assert len(machine.moves) <= 1 + 2 * 600 / PACE.longest_s


def test_a_load_that_ends_while_it_moves_does_not_keep_it_away() -> None:
    machine = Machine()
    machine.serve(60, load=lambda now: 2.0 if machine.point == 0 and now < 5 else 1.0)
    assert machine.point == 0


def test_a_load_that_flickers_moves_it_ever_more_rarely() -> None:
    machine = Machine()
    machine.serve(600, load=lambda now: 1.5 if int(now / 3) % 2 else 1.0)
    assert len(machine.moves) < 600 / PACE.longest_s * 3


def test_where_no_point_keeps_the_target_it_takes_the_fastest() -> None:
    machine = Machine(target_ms=1.0, speeds=(10.0, 3.0, 6.0))
    machine.serve(30)
    assert machine.point == 1
    count = len(machine.moves)
    machine.serve(100)
    assert len(machine.moves) == count


def test_memory_moves_it_at_once_and_gives_the_point_back_later() -> None:
    machine = Machine()
    machine.serve(1)
    machine.serve(0.01, allowed=[2])
    assert machine.moves == [(0, 2, "memory")]
    machine.serve(30, allowed=[2])
    assert machine.point == 2
    machine.serve(30)
    assert machine.point == 0


def test_the_nearest_point_before_is_taken_where_none_behind_fits() -> None:
    controller = FrontController(3, 12.0, PACE)
    controller.moved(2, 0.0)
    wish = controller.wish(1.0, [0, 1])
    assert wish is not None and wish.point == 1
    assert controller.wish(1.0, []) is None


def test_requests_of_an_earlier_point_do_not_count() -> None:
    controller = FrontController(2, 5.0, PACE)
    controller.moved(1, 0.0)
    for now in range(20):
        controller.record(0, 100.0, float(now))
    assert controller.wish(20.0, [0, 1]) is None


@pytest.mark.parametrize("count", range(PACE.samples))
def test_a_few_requests_are_no_reason(count: int) -> None:
    controller = FrontController(2, 5.0, PACE)
    for now in range(count):
        controller.record(0, 100.0, float(now))
    assert controller.wish(float(count), [0, 1]) is None
