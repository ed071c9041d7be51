"""Commands that plan or measure a network take the sizes of its inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet import save
from circlet.ir import DType
from circlet.ops.build import builder
from tests.cli.call import as_json, circlet

FEW = ("--backend", "reference")
COMMANDS = {
    "place": ("--backend", "cpu,reference", "--backend-of", "NEG=reference"),
    "costs": (*FEW, "--seconds", "0.02"),
    "pareto": (*FEW, "--memory", "planned", "--levels", "O0", "--rounds", "2"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 4))
    y = b.op("ABS", [x], name="y", shape=(None, 4))
    model = b.output(b.op("NEG", [y], name="z", shape=(None, 4))).model()
    save(model, tmp_path / "open.tflite")
    return tmp_path / "open.tflite"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_that_there_is_not_is_refused(command: str, path: Path) -> None:
    error = as_json(command, path, *COMMANDS[command], "--shape", "q=3,4", code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", "q")


def test_what_crosses_between_backends_has_these_sizes(path: Path) -> None:
    one, ten = (
        as_json("place", path, *COMMANDS["place"], *given)["transfer_bytes"]
        for given in ((), ("--shape", "x=10,4"))
    )
    assert ten == 10 * one > 0


def test_a_front_is_of_these_sizes(path: Path, tmp_path: Path) -> None:
    given = ("--shape", "x=1000,4")
    small, large = (
        as_json("pareto", path, *COMMANDS["pareto"], *sizes)["points"][0] for sizes in ((), given)
    )
    memory = [point["measurement"]["memory_bytes"] for point in (small, large)]
    assert memory[1] > memory[0] + 1000 * 4 * 4
    front = tmp_path / "front.json"
    circlet("pareto", path, *COMMANDS["pareto"], *given, "-o", front)
    shown = circlet("place", path, *FEW, "--front", front, "-o", tmp_path / "p.json", *given)
    assert shown.stdout.rstrip().endswith("-O O0 --shape x=1000x4")


def test_costs_are_those_of_these_sizes(path: Path) -> None:
    (network,) = as_json("costs", path, *COMMANDS["costs"], "--shape", "x=200000,4")["networks"]
    (small,) = as_json("costs", path, *COMMANDS["costs"])["networks"]
    assert sum(row["us"] for row in network["operators"]) > sum(
        row["us"] for row in small["operators"]
    )
    assert circlet("costs", "--forget", "--shape", "x=1,4").exit_code == 1
