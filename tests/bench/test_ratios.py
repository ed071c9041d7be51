"""Statistics and verdicts."""

from __future__ import annotations

import pytest

from bench.ratios import mean_ratio, meets, verdict
from circlet.comparison.ratios import Interval, best_peer, interval, ratio_of


def test_the_interval_is_around_the_median() -> None:
    found = interval([1.0, 1.1, 1.2, 1.3, 1.4])
    assert found.middle == 1.2 and 1.0 <= found.low < 1.2 < found.high <= 1.4
    assert interval([1.0, 1.1, 1.2, 1.3, 1.4]) == found


def test_more_rounds_make_a_narrower_interval() -> None:
    few, many = interval([1.0, 2.0, 3.0] * 3), interval([1.0, 2.0, 3.0] * 300)
    assert many.high - many.low < few.high - few.low


def test_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no values"):
        interval([])


def test_one_slow_round_changes_little() -> None:
    assert interval([2.0] * 10 + [200.0]).high == 2.0


def test_the_best_peer_is_the_fastest_one_but_us() -> None:
    rounds = {"litert": [3.0, 3.0], "openvino": [2.0, 9.0], "circlet": [1.0, 1.0]}
    assert best_peer(rounds) == "litert"
    assert best_peer({"circlet": [1.0]}) == ""
    assert ratio_of(rounds, "litert").middle == 3.0


def test_a_bar_is_met_by_the_lower_end() -> None:
    assert meets(Interval(1.2, 0.98, 1.3), 1.0)
    assert not meets(Interval(1.2, 0.96, 1.3), 1.0)


def test_small_networks_are_held_to_a_microsecond() -> None:
    slower = Interval(0.5, 0.5, 0.5)
    assert verdict(1.0, 1.0, 1.9, slower) == "met"
    assert verdict(1.0, 1.0, 2.1, slower) == "missed"
    assert verdict(1.0, 100.0, 200.0, slower) == "missed"


def test_a_network_is_held_to_its_bar() -> None:
    just_ahead = Interval(1.1, 1.1, 1.1)
    assert verdict(1.0, 100.0, 91.0, just_ahead) == "met"
    assert verdict(1.2, 100.0, 91.0, just_ahead) == "missed"


def test_the_mean_is_geometric() -> None:
    assert mean_ratio([1.0, 4.0]) == pytest.approx(2.0)
    assert mean_ratio([]) is None
