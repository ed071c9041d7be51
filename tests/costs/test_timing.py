"""Timing by a clock that only runs advance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circlet.costs.timing import Meter, Run
from tests.costs.fake import FakeClock


def taking(clock: FakeClock, counts: list[int], ns: Callable[[int], int]) -> Run:
    """A run that takes what a function of its number says."""
    counts.append(0)
    place = len(counts) - 1

    def run(limit_ns: int) -> None:
        clock.now += ns(counts[place])
        counts[place] += 1

    return run


def test_the_median_and_the_interval_of_nine_in_ten() -> None:
    clock, counts = FakeClock(), list[int]()
    slow_at_first = taking(clock, counts, lambda n: 10**6 if n < 3 else 50_000 + 1000 * (n % 21))
    found = Meter(budget_ns=50_000_000, clock=clock).time(slow_at_first)
    assert found.ns == pytest.approx(60_000, abs=500)
    assert found.low == pytest.approx(51_000, abs=500)
    assert found.high == pytest.approx(69_000, abs=500)


def test_short_runs_are_timed_many_at_once() -> None:
    clock, counts = FakeClock(), list[int]()
    found = Meter(budget_ns=1_000_000, clock=clock).time(taking(clock, counts, lambda n: 100))
    assert tuple(found) == (100, 100, 100)
    assert counts[0] > 5000


def test_long_runs_are_few() -> None:
    clock, counts = FakeClock(), list[int]()
    found = Meter(budget_ns=1_000_000, clock=clock).time(taking(clock, counts, lambda n: 10**10))
    assert found.ns == 10**10
    assert counts[0] <= 5


def test_runs_take_turns() -> None:
    clock, order = FakeClock(), list[str]()

    def named(name: str) -> Run:
        def run(limit_ns: int) -> None:
            order.append(name)
            clock.now += 10**6

        return run

    one, two = Meter(budget_ns=10**7, clock=clock).times([named("a"), named("b")])
    assert one.ns == two.ns == 10**6
    assert "abababab" in "".join(order)
