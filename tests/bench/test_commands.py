"""The commands of `python -m bench`, on one small network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import bf16_result, compile_time_result, measure, report, scaling, scaling_result
from bench.arguments import COMMANDS
from bench.result import Latency, Result, Run, from_json, to_json
from bench.scaling_result import newest
from tests.bench.files import need, small_file


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
    bench.main()


def test_help_lists_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--help")
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_takes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, command, "--help")
    assert ended.value.code == 0
    assert f"usage: python -m bench {command}" in capsys.readouterr().out


def test_the_growth_of_opening_is_shown_for_each_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("alive", "chain", "--first", 4, "--doublings", 1, "--backend", "reference")
    run(monkeypatch, "opening", *words)
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["form", "4", "8", "exponent"]
    assert [row.split()[0] for row in rows] == ["alive", "chain"]
    with pytest.raises(SystemExit):
        run(monkeypatch, "opening", "no such form")


def test_operators_are_counted_beside_the_peers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need("litert")
    page = tmp_path / "counts.md"
    run(monkeypatch, "counts", small_file(tmp_path), "--page", page)
    name, file, peer, *counts = capsys.readouterr().out.split()
    assert peer == "LiteRT" and 0 < int(counts[-1]) <= int(file) == int(counts[0])
    assert f"| {name} | {file} | LiteRT |" in page.read_text()
    assert "0 of 1 above the peer's" in page.read_text()


def test_levels_are_compared_by_time_and_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need("litert")
    words = (small_file(tmp_path), tmp_path / "absent.tflite", "--rounds", 2, "--loaded")
    run(monkeypatch, "levels", *words)
    row, absent, *said = capsys.readouterr().out.splitlines()
    assert row.split()[1] == "1T" and "other answers" not in row
    assert [name in row for name in ("O1 ", "O2 ", "file ")] == [True] * 3
    assert "absent.tflite" in absent and "circlet: " in absent
    assert ["1 measured" in line and "other answers: none" in line for line in said] == [True] * 3


@pytest.mark.parametrize(
    "words",
    [("absent.tflite",), ("--models", "no such name"), ("explain", "absent"), ("report", "absent")],
    ids=" ".join,
)
def test_what_is_not_there_leaves_the_page_alone(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the page was written")

    monkeypatch.setattr(report, "write", forbidden)
    monkeypatch.setattr(measure, "FOLDER", tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *words)
    assert ended.value.code not in (0, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_network_is_measured_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need("litert")
    target = tmp_path / "result.json"
    few = ("--threads", 1, "--rounds", 2, "--starts", 1, "--json", target)
    run(monkeypatch, small_file(tmp_path), tmp_path / "absent.tflite", *few)
    known = from_json(target.read_text())
    (result,) = known.results
    row = result.latency[1]
    assert row.best in row.us and row.ratio is not None and known.verdict(result, 1)
    start = result.starts["circlet"]
    assert start["peak_mib"] >= start["after_mib"] > 1 and start["cold_ms"] > start["warm_ms"] > 0
    assert result.compile_s and result.artifact_bytes and result.open_ms["circlet"] > 0
    assert "circlet, fp32, 1 threads" in known.engines
    assert "absent: " in capsys.readouterr().out


def test_a_network_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "rows.json"
    few = ("--seconds", 0.05, "--top", 3, "--json", target)
    run(monkeypatch, "explain", small_file(tmp_path, "int8"), *few)
    shown = capsys.readouterr().out
    assert "peaks of a core" in shown and "float us" in shown
    found = json.loads(target.read_text())
    assert {row["bound"] for row in found["rows"]} <= {"arithmetic", "memory"}
    assert found["peaks"]["fp32_gflops"] > 1 and found["beside_floats"]


def test_the_page_is_made_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'circlet[bench]'")
    monkeypatch.setattr(report, "DOCS", tmp_path)
    for module in (report, scaling_result, bf16_result, compile_time_result):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "results")
    row = Latency({"circlet": 2.0}, {})
    machine = {"isa": "x86_64_v3", "cpu": "one"}
    known = Run(machine, {}, {}, [Result("net", "fp32", 1, 1, {1: row})], "today")
    (tmp_path / "run.json").write_text(to_json(known))
    run(monkeypatch, "report", tmp_path / "run.json", "--loaded")
    overview = (tmp_path / "performance.md").read_text()
    assert "[All networks](performance/x86-64.md); one, ? CPUs, run of today." in overview
    assert "run of today" in (tmp_path / "performance" / "x86-64.md").read_text()
    assert (tmp_path / "performance" / "x86-64" / "ratios.svg").exists()


@pytest.mark.slow
def test_scaling_curves_are_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling_result, "FOLDER", tmp_path)
    monkeypatch.setattr(scaling, "AXES", {"batch": (1, 2)})
    monkeypatch.setattr(scaling, "KINDS", ("fp32",))
    monkeypatch.setattr(scaling, "ENGINES", ("circlet",))
    run(monkeypatch, "scaling", "--rounds", 1, "--axes", "batch", "--loaded")
    found = newest()
    assert found is not None
    assert [(point.axis, point.at) for point in found.points] == [("batch", 1), ("batch", 2)]
    assert all(point.us["circlet"] > 0 for point in found.points)


@pytest.mark.slow
def test_compile_times_are_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_time_result, "FOLDER", tmp_path)
    run(monkeypatch, "compile_time", small_file(tmp_path), "--rounds", 1, "--ops", 10, "--loaded")
    found = compile_time_result.newest()
    assert found is not None
    assert [row.ops for row in found.rows] == [found.rows[0].ops, 10, 10, 10, 10]
    assert all(row.seconds > row.plan_s > 0 and row.kernels > 0 for row in found.rows)
    assert "| fp32, alike | 10 |" in compile_time_result.section(found)
