"""Measuring whole networks: times divided among operators, what fails, and what is left to do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from circlet.backends.profiled import Work
from circlet.costs.database import Database
from circlet.costs.estimate import Estimate
from circlet.costs.model import Costs
from circlet.costs.rows import ALONE, WITHIN
from circlet.costs.study import Effort, compare, measure
from circlet.costs.timing import Meter
from circlet.costs.whole import Division, Network
from circlet.errors import InputError
from circlet.options import DEFAULT_OPTIONS
from circlet.profiling.calls import TimedCall
from circlet.sample import Sample
from tests import corpora
from tests.costs.fake import FakeBackend, Fakes, Formula

SHORT = Effort(Meter(budget_ns=1_000_000), seconds=0.02)


def call(us: float, *sources: int) -> TimedCall:
    work = Work("k", "CONV_2D", tuple((n, str(n)) for n in sources), 1, 0, 0, 0, 40, "fp32")
    return TimedCall(0, 0, "cpu", work, us, (us / 2, us * 2))


def test_a_call_is_divided_by_arithmetic_else_by_bytes() -> None:
    weights = [(300.0, 10.0), (100.0, 90.0), (0.0, 30.0), (0.0, 10.0)]
    division = Division(weights, {0: [0], 1: [1], 2: [2], 3: [3]})
    division.add(call(8.0, 0, 1, 2))
    division.add(call(4.0, 2, 3))
    spent = {place: own.ns for place, own in division.spent.items()}
    assert spent == pytest.approx({0: 6000, 1: 2000, 2: 3000, 3: 1000})
    assert (division.spent[0].low, division.spent[0].high) == (3000, 12000)
    assert sum(own.held for own in division.spent.values()) == 80


def test_operators_that_descend_from_one_share_its_calls() -> None:
    division = Division([(1.0, 1.0), (3.0, 1.0)], {7: [0, 1]})
    division.add(call(4.0, 7))
    division.add(call(9.0, 8))  # which no operator descends from
    assert [division.spent[place].ns for place in (0, 1)] == [1000, 3000]


def test_a_backend_that_tells_of_operators_is_asked_once() -> None:
    costs = Costs(Database(":memory:"))
    network = Network.read(Sample().model_path, costs, ["reference"])
    assert [op.kind for op in network.ops][:2] == ["CONV_2D", "DEPTHWISE_CONV_2D"]
    measure(costs, network, ["reference"], [1], SHORT)
    known = costs.known("reference", 1)
    assert {row.way for row in known.rows.values()} == {WITHIN}
    assert all(costs.operator_ns(op, "reference", 1).measured for op in network.ops)
    assert costs.operator_bytes(network.ops[0], "reference", 1) > 0
    found = compare(costs, network, "reference", 1)
    assert found.partitions == 1
    (whole,) = known.wholes
    assert found.measured == Estimate(whole.total_ns, whole.low, whole.high, measured=True)
    parts = [costs.operator_ns(op, "reference", 1).ns for op in network.ops]
    wanted = sum(parts) + costs.partition_ns("reference")
    assert min(parts) > 0 and found.predicted.ns == pytest.approx(wanted)
    assert found.predicted.low <= found.predicted.ns <= found.predicted.high
    assert sum(count for _, count in whole.members) == len(network.ops)


def test_what_is_known_is_not_measured_again(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    costs = Costs(Database(":memory:"))
    network = Network.read(Sample().model_path, costs, ["fake"])
    effort = Effort(Meter(budget_ns=1_000_000, clock=fakes.clock), seconds=0.01)
    measure(costs, network, ["fake"], [1], effort)
    rows, before = costs.known("fake", 1).rows, fakes.clock.now
    assert {row.way for row in rows.values()} == {ALONE}
    measure(costs, network, ["fake"], [1], effort)
    assert fakes.clock.now == before
    measure(costs, network, ["fake"], [1], Effort(effort.meter, effort.seconds, again=True))
    assert fakes.clock.now > before


def test_a_backend_that_fails_is_logged_and_left_out(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: object) -> None:
        raise InputError("it fails", where="fake")

    fakes.add("fake", Formula())
    monkeypatch.setattr(FakeBackend, "load", fail)
    costs = Costs(Database(":memory:"))
    network = Network.read(Sample().model_path, costs, ["fake"])
    with caplog.at_level(logging.WARNING):
        measure(costs, network, ["fake"], [1], SHORT)
    assert "fake does not run the whole network" in caplog.text
    assert "fake does not run conv alone" in caplog.text
    assert costs.known("fake", 1).rows == {}
    with pytest.raises(InputError, match="nothing is known"):
        compare(costs, network, "fake", 1)


def test_other_machines_are_not_measured() -> None:
    costs = Costs(Database(":memory:"), DEFAULT_OPTIONS._replace(target="aarch64"))
    network = Network("", costs.options, (), ())
    with pytest.raises(InputError, match="on this machine only"):
        measure(costs, network, ["cpu"], [1])


@pytest.mark.slow
@corpora.each("path", ["models/kws_dscnn_int8.tflite", "models/if_dynamic.tflite"])
def test_public_networks_are_measured_on_native_code(path: str) -> None:
    costs = Costs(Database(":memory:"))
    file: Path = corpora.corpus(path)
    network = Network.read(file, costs, ["cpu"])
    measure(costs, network, ["cpu"], [1], SHORT)
    for op in network.ops:
        if not costs.refusal(op, "cpu"):
            found = costs.operator_ns(op, "cpu", 1)
            assert 0 <= found.low <= found.ns <= found.high
    found_whole = compare(costs, network, "cpu", 1)
    assert found_whole.measured is not None
