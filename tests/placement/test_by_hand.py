"""Operators placed by rules of a user, and placements as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError, PlacementError
from circlet.placement.by_hand import chosen_by_hand
from circlet.placement.file import read_placement, rules_of, write_placement
from circlet.placement.rule import place
from circlet.sample import Sample
from tests.cli.call import as_json
from tests.placement.test_rule import EVERYTHING, Only, graph

FAST = Only("fast", "RELU", "TANH")
SLOW = Only("slow", "RELU")


def placed(rules: dict[str, str], *, strict: bool = False) -> list[tuple[str, list[str]]]:
    network = graph("RELU", "TANH", "RELU")
    wanted = chosen_by_hand(network, tuple(rules.items()), [FAST, EVERYTHING, SLOW])
    rows = place(network, [FAST, EVERYTHING], strict=strict, wanted=wanted)
    return [(row.backend, [name for name, _ in row.refused]) for row in rows]


@pytest.mark.parametrize(
    ("rules", "backends"),
    [
        ({"RELU": "slow"}, ["slow", "fast", "slow"]),
        ({"layer2/.*": "numpy"}, ["fast", "fast", "numpy"]),
        ({"layer0/RELU": "numpy", "RELU": "slow"}, ["numpy", "fast", "slow"]),
        ({".*": "numpy"}, ["numpy", "numpy", "numpy"]),
    ],
)
def test_the_first_rule_that_matches_places(rules: dict[str, str], backends: list[str]) -> None:
    assert placed(rules) == [(name, []) for name in backends]
    assert placed(rules, strict=True) == [(name, []) for name in backends]


def test_where_the_wanted_backend_refuses_the_others_are_asked() -> None:
    assert placed({"TANH": "slow"})[1] == ("fast", ["slow"])
    with pytest.raises(PlacementError, match="slow"):
        placed({"TANH": "slow"}, strict=True)


@pytest.mark.parametrize("pattern", ["TAN", "layer9/.*", "("])
def test_a_rule_that_places_nothing_is_an_error(pattern: str) -> None:
    with pytest.raises(InputError) as caught:
        placed({pattern: "fast"})
    assert caught.value.where == pattern


def test_a_session_places_by_rules_on_backends_that_it_has_not_named() -> None:
    sample = Sample()
    session = Session(sample.model_path, backends=["cpu"], backend_of={"CONV_2D": "reference"})
    backends = {(row["kind"], row["backend"]) for row in session.placement}
    assert ("CONV_2D", "reference") in backends
    assert {name for kind, name in backends if kind != "CONV_2D"} == {"cpu"}
    (got,) = session.run([sample.image()]).values()
    (wanted,) = Session(sample.model_path).run([sample.image()]).values()
    np.testing.assert_array_equal(got, wanted)


def test_rules_are_part_of_what_the_cache_knows_a_plan_by() -> None:
    sample = Sample()
    for rules in ({"SOFTMAX": "reference"}, {}, {"SOFTMAX": "reference"}, {}):
        session = Session(sample.model_path, backend_of=rules)
        assert session.placement[-1]["backend"] == rules.get("SOFTMAX", "cpu")


def test_a_placement_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "placement.json"
    write_placement(path, {"a.b/conv": "cpu", "(x)": "reference"})
    found = read_placement(path)
    assert found == {"a.b/conv": "cpu", "(x)": "reference"}
    assert rules_of(found) == ((r"a\.b/conv", "cpu"), (r"\(x\)", "reference"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "x", "version": 1, "backends": {}}', '{"backends": []}']
)
def test_another_file_is_no_placement(tmp_path: Path, text: str) -> None:
    path = tmp_path / "placement.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_placement(path)
    assert caught.value.where == str(path)


def test_the_command_places_saves_loads_and_compares(tmp_path: Path) -> None:
    model, saved = str(Sample().model_path), str(tmp_path / "placement.json")
    rule = ("--backend-of", "SOFTMAX=reference")
    made = as_json("place", model, *rule, "-o", saved)
    assert made["partitions"][-1] == ["reference", 1]
    assert [each["reader"] for each in made["transfers"]] == ["reference"]
    assert made["transfer_bytes"] == sum(each["bytes"] for each in made["transfers"]) > 0
    assert json.loads(Path(saved).read_text())["backends"][made["operators"][-1]["source"]]
    again = as_json("place", model, "--placement", saved, "--against", saved)
    assert (again["partitions"], again["moved"]) == (made["partitions"], [])
    plain = as_json("place", model, "--against", saved)
    assert [(m["before"], m["after"]) for m in plain["moved"]] == [("reference", "cpu")]
