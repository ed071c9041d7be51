"""Networks as problems: the groups, what they hand on, and partitions as the compiler cuts them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from circlet.commands.place import PlaceRequest, place_network
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import UnsupportedOpsError
from circlet.formats import load
from circlet.ir import DType, Op
from circlet.ops.build import builder
from circlet.options import Options
from circlet.pareto.build import Level, problems_of
from circlet.pareto.groups import groups_of
from circlet.placement.file import rules_of
from circlet.placement.problem import Problem, Setting
from circlet.placement.search.objective import Objective
from tests import corpora
from tests.pareto.networks import TableCosts, branches, dense

BACKENDS = ("reference", "other")


def ops_at(model: bytes, level: str = "O0") -> tuple[Op, ...]:
    options = Options(backends=("reference",), level=level)
    planned = plan(Template.of(load(model), options), options)
    return tuple(row.op for row in planned.placed)


def problem_of(model: bytes, **costs: object) -> Problem:
    table = TableCosts({"reference": 1000.0, "other": 100.0}, **costs)  # type: ignore[arg-type]
    level = Level("O0", ops_at(model), table)
    (problem,) = problems_of([level], BACKENDS, [Setting(level="O0")])
    return problem


@pytest.mark.smoke
def test_values_and_steps_are_those_of_the_network() -> None:
    problem = problem_of(branches())
    names = [group.sources[0] for group in problem.groups]
    assert len(names) == 6 and names[0] == "stem" and names[-1] == "end"
    stem, left = names.index("stem"), names.index("left")
    handed = {(v.writer, v.readers): v.size_bytes for v in problem.values}
    assert handed[stem, tuple(sorted((left, names.index("right"))))] == 64 * 4
    assert {n for n, step in enumerate(problem.steps) if not step.after} == {0}
    assert problem.base_bytes == 3 * 64 * 4  # both operands and the result of the addition


def test_costs_add_up_as_worked_out_by_hand() -> None:
    problem = problem_of(branches())
    names = [group.sources[0] for group in problem.groups]
    choice = np.zeros(6, np.int64)
    caller = 2 * 256  # bytes of the input and of the output
    assert Objective(problem).point(choice) == (6 * 1000 + 10 + caller, 3 * 256 + 600)
    choice[names.index("left")] = 1  # stem, the right branch and the rest stay: two partitions more
    time, memory = Objective(problem).point(choice)
    assert time == 5 * 1000 + 100 + 2 * 256 + 3 * 10 + caller
    assert memory == 3 * 256 + 600 + 2 * 256


def test_what_a_backend_refuses_it_is_not_given_and_says_why() -> None:
    problem = problem_of(branches(), refused={"other": {"TANH"}})
    left = [group.sources[0] for group in problem.groups].index("left")
    assert not problem.allowed[left, 1] and problem.allowed.sum() == 11
    assert "refused by a table" in problem.reasons[left, 1]


def test_what_no_backend_takes_is_reported_in_full() -> None:
    refused = {name: {"TANH", "EXP"} for name in BACKENDS}
    with pytest.raises(UnsupportedOpsError) as caught:
        problem_of(branches(), refused=refused)
    assert {entry.kind for entry in caught.value.entries} == {"TANH", "EXP"}


@pytest.mark.parametrize("seed", range(3))
def test_partitions_and_transfers_are_those_of_circlet_place(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Backends `reference` and `litert` stand for any two: the counts are the compiler's own."""
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    path = tmp_path_factory.mktemp("model") / "branches.tflite"
    path.write_bytes(branches())
    names = ("reference", "litert")
    table = TableCosts({"reference": 1.0, "litert": 1.0})
    (problem,) = problems_of([Level("O0", ops_at(branches()), table)], names, [Setting(level="O0")])
    choice = np.random.default_rng(seed).integers(0, 2, len(problem.groups))
    rules = rules_of(problem.placement(choice))
    placed = place_network(
        PlaceRequest(path, Options(backends=names, level="O0", backend_of=rules))
    )
    objective = Objective(problem)
    counts = objective.partition_counts(choice[None])[0]
    expected = [sum(name == backend for backend, _ in placed.partitions) for name in names]
    assert counts.tolist() == expected
    between = [each for each in placed.transfers if "caller" not in (each.writer, each.reader)]
    assert objective.transfers(choice[None])[0] == sum(each.bytes or 0 for each in between)


def test_groups_are_the_same_at_all_levels_and_sources_stay_together() -> None:
    networks = [ops_at(dense(), level) for level in ("O0", "O2")]
    groups = groups_of(networks)
    assert sorted(itertools.chain(*groups)) == sorted(
        {source.name for ops in networks for op in ops for source in op.origin.sources}
    )
    for ops in networks:
        for op in ops:
            homes = [u for u in groups if u and {s.name for s in op.origin.sources} & set(u)]
            assert len(homes) == 1


def test_threads_make_problems_of_their_own() -> None:
    level = Level(
        "O0", ops_at(branches()), TableCosts(dict.fromkeys(BACKENDS, 1000.0), byte_ns=0.0)
    )
    settings = [Setting(1, "O0"), Setting(2, "O0")]
    one, two = problems_of([level], BACKENDS, settings)
    assert (one.time_ns == 2 * two.time_ns).all() and one.groups == two.groups


@corpora.each("name", corpora.models(), ("kws_dscnn_int8.tflite", "person_detect.tflite"))
def test_real_networks_make_problems(name: str) -> None:
    model = corpora.corpus(f"models/{name}").read_bytes()
    try:
        ops = ops_at(model, "O2")
    except UnsupportedOpsError as error:
        pytest.skip(f"{error.code}: {error.entries[0].kind}")
    (problem,) = problems_of(
        [Level("O2", ops, TableCosts(dict.fromkeys(BACKENDS, 1.0)))], BACKENDS, [Setting()]
    )
    assert len(problem.steps) == len(ops)
    assert sorted({step.group for step in problem.steps}) == list(range(len(problem.groups)))
    assert all(value.writer < min(value.readers) for value in problem.values)


def test_groups_that_wait_for_each_other_are_one() -> None:
    b = builder()
    first = b.op("RELU", [b.input("x", DType.FLOAT32, (1, 4))], name="shared")
    second = b.op("TANH", [first], name="between")
    third = b.op("EXP", [second], name="shared")
    b.op("LOGISTIC", [third], name="behind")
    assert groups_of([b.graph.ops]) == [("shared", "between"), ("behind",)]
