"""Costs of operators, partitions and transfers, where backends take what a formula says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.costs.borders import measure_border, measure_transfers
from circlet.costs.database import Database
from circlet.costs.exchange import exported, import_times
from circlet.costs.exec_time import ExecTime, Record
from circlet.costs.model import HOST, Costs
from circlet.costs.rows import Whole
from circlet.costs.study import measure_alone
from circlet.costs.timing import Meter
from circlet.errors import InputError, PlacementError
from circlet.ir import DType, Op
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.geometry import SAME_UPPER
from tests.costs.fake import Fakes, Formula


def convolution(side: int, channels: int, filters: int, size: int = 1, seed: int = 0) -> Op:
    """A float convolution of a square image; weights differ with the seed."""
    made = builder()
    image = made.input("x", DType.FLOAT32, (1, side, side, channels))
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=(filters, size, size, channels)).astype(np.float32)
    given = [image, made.constant("w", weights), made.constant("b", np.zeros(filters, np.float32))]
    attrs = Conv2DAttrs(SAME_UPPER, (1, 1), (1, 1))
    graph = made.output(made.op("CONV_2D", given, attrs, name=f"conv {side} {filters}")).build()
    return graph.ops[0]


def relu(elements: int) -> Op:
    made = builder()
    image = made.input("x", DType.FLOAT32, (1, elements))
    return made.output(made.op("RELU", [image], name="relu")).build().ops[0]


SIZES = [(8, 8, 8), (8, 16, 32), (16, 8, 24), (16, 32, 16), (32, 16, 16), (32, 8, 64), (56, 8, 8)]
CONVOLUTIONS = [convolution(*size) for size in SIZES]


def costs_on(fakes: Fakes, ops: Sequence[Op], *names: str, threads: int = 1) -> Costs:
    """Costs in memory with borders and some operators measured."""
    costs = Costs(Database(":memory:"))
    meter = Meter(budget_ns=10_000_000, clock=fakes.clock)
    for name in names:
        measure_border(costs, name, meter)
        costs.changed()
        measure_alone(costs, ops, name, threads, meter)
    costs.changed()
    return costs


@pytest.mark.smoke
def test_an_operator_costs_what_it_takes_less_its_partition(fakes: Fakes) -> None:
    formula = Formula()
    fakes.add("fake", formula)
    op = CONVOLUTIONS[2]
    found = costs_on(fakes, [op], "fake").operator_ns(op, "fake", 1)
    assert found.measured
    assert found.ns == pytest.approx(formula.operator(op), rel=0.02)
    assert found.low <= found.ns <= found.high


def test_partitions_and_bytes_cost_what_the_backend_takes(fakes: Fakes) -> None:
    fakes.add("fake", Formula(call_ns=3000, byte_ns=0.5))
    costs = costs_on(fakes, [], "fake")
    assert costs.partition_ns("fake") == pytest.approx(3000, rel=0.05)
    assert costs.transfer_ns(1 << 20, HOST, "fake") == pytest.approx(0.5 * 2**20, rel=0.02)
    assert costs.known("fake", 1).border.ns_per_byte == pytest.approx(0.5, rel=0.02)


def test_other_sizes_are_predicted_within_their_interval(fakes: Fakes) -> None:
    formula = Formula()
    fakes.add("fake", formula)
    costs = costs_on(fakes, CONVOLUTIONS, "fake")
    for size in ((16, 16, 16), (24, 8, 40), (40, 16, 8)):
        op = convolution(*size)
        found = costs.operator_ns(op, "fake", 1)
        assert not found.measured
        assert found.ns == pytest.approx(formula.operator(op), rel=0.1)
        assert found.low <= formula.operator(op) <= found.high


def test_equal_operators_are_measured_once(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    costs = costs_on(fakes, [convolution(8, 8, 8, seed=1)], "fake")
    assert costs.operator_ns(convolution(8, 8, 8, seed=2), "fake", 1).measured
    assert not costs.operator_ns(convolution(8, 8, 16), "fake", 1).measured


def test_stray_runs_widen_the_interval_and_leave_the_median(fakes: Fakes) -> None:
    formula = Formula(noise=5.0)
    fakes.add("fake", formula)
    op = CONVOLUTIONS[5]
    found = costs_on(fakes, [op], "fake").operator_ns(op, "fake", 1)
    assert found.ns == pytest.approx(formula.operator(op), rel=0.1)
    assert found.high > 1.5 * found.ns


def test_a_refused_operator_is_told_with_the_reason(fakes: Fakes) -> None:
    fakes.add("fake", Formula(), refuses=("RELU",))
    costs = costs_on(fakes, CONVOLUTIONS[:1], "fake")
    with pytest.raises(PlacementError, match="refused by test") as caught:
        costs.operator_ns(relu(64), "fake", 1)
    assert caught.value.where == "relu"


def test_a_backend_of_which_nothing_is_known_is_told_with_the_command(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    costs = Costs(Database(":memory:"))
    with pytest.raises(InputError, match="circlet costs MODEL --backend fake"):
        costs.operator_ns(relu(64), "fake", 1)
    assert costs.partition_ns("fake") == 7000.0


def test_another_kind_is_predicted_from_what_is_known(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    costs = costs_on(fakes, [*CONVOLUTIONS, relu(1000)], "fake")
    found = costs.operator_ns(relu(5000), "fake", 1)
    assert not found.measured
    assert found.low < Formula().operator(relu(5000)) < found.high


def test_times_at_other_threads_stand_in_with_a_wider_interval(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    op = CONVOLUTIONS[0]
    costs = costs_on(fakes, [op], "fake")
    one, two = (costs.operator_ns(op, "fake", threads) for threads in (1, 2))
    assert (one.measured, two.measured) == (True, False)
    assert two.low < one.low and two.high > one.high


def test_threads_are_measured_apart(fakes: Fakes) -> None:
    formula = Formula(by_threads=True)
    fakes.add("fake", formula)
    op = CONVOLUTIONS[5]
    costs = costs_on(fakes, [op], "fake", threads=4)
    assert costs.operator_ns(op, "fake", 4).ns == pytest.approx(formula.operator(op) / 4, rel=0.1)


def test_whole_networks_set_the_factor_of_single_operators(fakes: Fakes) -> None:
    formula = Formula()
    fakes.add("fake", formula)
    costs = costs_on(fakes, CONVOLUTIONS, "fake")
    for number, ops in enumerate((CONVOLUTIONS[:3], CONVOLUTIONS[2:5], CONVOLUTIONS[4:])):
        whole = 0.8 * sum(map(formula.operator, ops)) + 2000
        members = tuple((costs.signature(op).key, 1) for op in ops)
        network = Whole(str(number), whole, whole, whole, whole, 1, members)
        costs.database.add_network(costs.context("fake", 1), network)
    costs.changed()
    op = CONVOLUTIONS[3]
    found = costs.operator_ns(op, "fake", 1)
    assert costs.known("fake", 1).calibration.factor == pytest.approx(0.8, rel=0.02)
    assert found.ns == pytest.approx(0.8 * formula.operator(op), rel=0.03)
    assert costs.partition_ns("fake") == pytest.approx(2000, rel=0.1)


def test_transfers_are_measured_between_two_backends(fakes: Fakes) -> None:
    fakes.add("near", Formula(call_ns=100, byte_ns=0))
    fakes.add("far", Formula(call_ns=5000, byte_ns=0.25))
    costs = costs_on(fakes, [], "near", "far")
    says = costs.transfer_ns(1 << 20, "near", "far")
    assert says == pytest.approx(14000 + 2**20)  # what both say of themselves
    measure_transfers(costs, [("near", "far")], Meter(clock=fakes.clock))
    costs.changed()
    assert costs.transfer_ns(1 << 20, "near", "far") == pytest.approx(0.25 * 2**20, rel=0.05)
    assert costs.transfer_ns(1 << 20, "near", "near") == 0


def test_memory_is_what_the_backend_keeps_else_the_constants(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    op = convolution(8, 16, 64)
    costs = costs_on(fakes, [op], "fake")
    constants = 4 * (16 * 64 + 64)
    assert costs.operator_bytes(op, "fake", 1) >= constants  # the stored partition holds more
    assert costs.operator_bytes(convolution(9, 16, 64), "fake", 1) == constants


def test_other_versions_and_options_know_nothing_of_each_other(fakes: Fakes) -> None:
    backend = fakes.add("fake", Formula())
    op = CONVOLUTIONS[0]
    costs = costs_on(fakes, [op], "fake")
    backend.version = "2"
    costs.changed()
    with pytest.raises(InputError):
        costs.operator_ns(op, "fake", 1)
    backend.version = "1"
    costs.changed()
    assert costs.operator_ns(op, "fake", 1).measured
    other = Costs(costs.database, costs.options._replace(level="O0"))
    with pytest.raises(InputError):
        other.operator_ns(op, "fake", 1)


def test_times_of_another_tool_serve_where_nothing_was_measured(fakes: Fakes) -> None:
    fakes.add("fake", Formula())
    fakes.add("other", Formula())
    costs, op = Costs(Database(":memory:")), relu(250)
    times = ExecTime()
    times.put(Record("fake", "ReLU", False, 1000, 10))
    times.put(Record("fake", "ReLU", False, 3000, 30))
    times.put(Record("fake", "other", False, 2000, 4))
    times.put(Record("absent", "ReLU", False, 1000, 10))
    assert import_times(costs, times, 1) == (3, ("absent",))
    found = costs.operator_ns(op, "fake", 1)  # 250 floats in, 250 out: 2000 bytes
    assert (found.ns, found.measured) == (20000, False)
    assert costs.transfer_ns(1000, "fake", "other") == pytest.approx(4000, rel=0.01)


def test_what_was_measured_is_exported_by_the_names_of_one(fakes: Fakes) -> None:
    formula = Formula(op_ns=50_000)
    fakes.add("fake", formula)
    fakes.add("other", formula)
    costs = costs_on(fakes, [relu(250)], "fake", "other")
    measure_transfers(costs, [("fake", "other")], Meter(clock=fakes.clock))
    costs.changed()
    records = list(exported(costs, ["fake", "other"], 1).records())
    (own,) = [r for r in records if r.backend == "fake" and r.name == "ReLU"]
    assert (own.quantised, own.size) == (False, 2000)
    assert own.us == pytest.approx(formula.operator(relu(250)) / 1e3, rel=0.05)
    sizes = [r.size for r in records if r.backend == "fake" and r.name == "other"]
    assert sizes == [2 * 4 * 16 * side * side for side in (8, 32, 128)]
