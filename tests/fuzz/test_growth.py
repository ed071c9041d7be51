"""The makers of growth make sound files, and put artifacts together so that their hashes fit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from circlet.artifact.file import open_artifact
from circlet.errors import ArtifactError, CircletError
from circlet.formats import load
from circlet.limits import Limits
from tests.fuzz import growth, mutate_artifact
from tests.fuzz.case import LIMITS
from tests.fuzz.engine import Request, fuzz, fuzz_side_by_side
from tests.fuzz.growth import nesting
from tests.fuzz.growth.parts import Parts, amount, tensor
from tests.fuzz.growth.sharing import Sharing
from tests.runtime import networks


def graphs_of(data: bytes, limits: Limits = LIMITS) -> int:
    """How many graphs a file has that can be read, else 0."""
    try:
        return len(load(data, limits).graphs)
    except CircletError:
        return 0


@pytest.mark.parametrize("maker", growth.MAKERS)
def test_a_maker_makes_sound_files_from_numbers_alone(maker: str) -> None:
    files = [growth.MAKERS[maker](Random(number)) for number in range(12)]
    assert files[:3] == [growth.MAKERS[maker](Random(number)) for number in range(3)]
    assert len(set(files)) > 9
    assert sum(graphs_of(file) > 0 for file in files) >= 4


def test_what_is_shared_is_written_once_and_read_everywhere() -> None:
    parts, one = Parts(), tensor("x" * 200)
    operators = [parts.op("ADD", [n, n], [n + 1]) for n in range(9)]
    parts.graph([one] * 10, operators, [0], [9])
    graph = load(parts.encode(Sharing)).main
    assert [t.name for t in graph.tensors] == ["x" * 200] * 10
    assert parts.encode(Sharing).count(b"x" * 200) == 1
    assert parts.encode().count(b"x" * 200) == 10


def test_few_is_usual_and_many_and_most_come_too() -> None:
    drawn = [amount(Random(number), [1], [2], [3]) for number in range(1000)]
    assert [drawn.count(size) > least for size, least in ((1, 900), (2, 20), (3, 2))] == [True] * 3


def test_calls_nest_less_and_more_deeply_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "amount", lambda random, _, large: random.choice(large))
    files = [growth.MAKERS["nesting"](Random(number)) for number in range(30)]
    deep = Limits(call_depth=200)
    assert any(graphs_of(file, deep) > 33 and not graphs_of(file) for file in files)
    assert any(graphs_of(file) > 10 for file in files)


def test_an_artifact_put_together_again_is_whole() -> None:
    data = mutate_artifact.artifact_of(networks.relu())
    artifact = mutate_artifact.Artifact(data)
    open_artifact(artifact.data()).verify_full()
    artifact.sections[0][:1] = b"\x00" if artifact.sections[0][:1] != b"\x00" else b"\x01"
    open_artifact(artifact.data()).verify_full()


def test_changes_of_artifacts_lie_behind_the_check_of_hashes() -> None:
    data, opened = mutate_artifact.artifact_of(networks.sum_and_difference()), 0
    for number in range(60):
        changed = mutate_artifact.mutate(data, Random(number))
        try:
            open_artifact(changed).verify_full()
        except ArtifactError:
            continue
        opened += 1
    assert 20 < opened < 60


@pytest.mark.slow
def test_processes_side_by_side_run_each_case_once(tmp_path: Path) -> None:
    alone = fuzz(Request(4, tmp_path / "alone", count=9))
    together = fuzz_side_by_side(Request(4, tmp_path / "together", count=9), jobs=2)
    assert together.executions == 9
    assert together.outcomes == alone.outcomes
    assert together.makers == alone.makers


@pytest.mark.slow
@pytest.mark.parametrize("maker", [*growth.MAKERS, "artifact"])
def test_no_file_that_asks_for_much_ends_in_anything_but_an_answer_or_a_code(
    maker: str, tmp_path: Path
) -> None:
    report = fuzz(Request(40, tmp_path, count=150, only=maker))
    assert report.executions == 150
    assert not report.findings, report.table()
