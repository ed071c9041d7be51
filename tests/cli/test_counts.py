"""One word counts one thing: operators are those of the file, in every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet.formats import load
from tests.cli.call import as_json, circlet
from tests.runtime import networks

pytest.importorskip("onnx", reason="other files have an operator for each op")

TARGET = ("--target", "baseline")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "m.onnx"
    path.write_bytes(networks.open_window())
    return path


def nodes(path: Path) -> int:
    import onnx

    return len(onnx.load(path).graph.node)


def test_operators_are_those_of_the_file(path: Path, tmp_path: Path) -> None:
    count = nodes(path)
    assert len(load(path).main.ops) > count  # reading makes several of some
    inspected = as_json("inspect", path, *TARGET)
    assert len(inspected["operators"]) == sum(row["count"] for row in inspected["kinds"]) == count
    assert [row["count"] for row in inspected["placement"]] == [count]
    ran = as_json("run", path)
    made = as_json("compile", path, "-o", tmp_path / "m.circlet")
    assert ran["native_ops"] == ran["ops"] == made["native_ops"] == made["ops"] == count
    assert as_json("run", path, "--backend", "reference")["native_ops"] == 0
    report = as_json("report", path, "-o", tmp_path / "m.html", "--runs", "0")["reports"][0]
    assert len(report["source"]["operators"]) == count
    assert as_json("verify", path)["ops"] == as_json("diff", path, path)["first"]["ops"] == count


def test_operators_of_written_files_are_theirs(path: Path, tmp_path: Path) -> None:
    for command in ("convert", "optimize", "cut"):
        target = tmp_path / f"{command}.onnx"
        made = as_json(command, path, target)
        assert (made["after"]["operators"] if "after" in made else made["ops"]) == nodes(target)


def test_what_runs_in_their_place_are_fused_operators(path: Path, tmp_path: Path) -> None:
    circlet("compile", path, "-o", tmp_path / "m.circlet")
    counts = {
        circlet(*words).stdout.partition(" fused operator")[0].split()[-1].strip("(")
        for words in (
            ("inspect", path),
            ("inspect", tmp_path / "m.circlet"),
            ("memory", path, "--no-process"),
            ("place", path),
            ("map", path),
            ("dump", path, "--stage", "plan"),
            ("report", path, "-o", tmp_path / "m.html", "--runs", "0"),
        )
    }
    assert len(counts) == 1 and counts != {str(nodes(path))}
