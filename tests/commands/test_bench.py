"""`circlet bench`: engines in turn, what is missing, and LiteRT's own flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet.commands import bench
from circlet.commands.bench import BenchRequest, Peer, bench_network
from circlet.comparison.compare import Compared
from circlet.comparison.ratios import Interval
from circlet.errors import BackendError, InputError
from tests.bench.files import need, small_file
from tests.cli.call import as_json, circlet
from tests.runtime import networks

FEW = {"threads": 1, "rounds": 2, "runs": 4}


def test_a_network_is_timed_by_circlet_alone(tmp_path: Path) -> None:
    found = bench_network(BenchRequest(small_file(tmp_path), threads=1, rounds=2, runs=4))
    (row,) = found.rows
    assert row.engine == "circlet" and row.ratio is None and row.difference is None
    assert 0 < row.us.low <= row.us.middle <= row.us.high
    assert found.threads == 1 and found.kind == "fp32" and not found.refused


def test_a_network_that_runs_in_numpy_is_not_timed_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CC", str(tmp_path / "no_compiler"))
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    result = circlet("bench", small_file(tmp_path), "--threads", 1, "--rounds", 2, "--runs", 2)
    assert result.exit_code == 0 and "operators ran in numpy" in result.stdout


@pytest.mark.slow
def test_peers_run_the_same_network_in_turn(tmp_path: Path) -> None:
    need("litert")
    found = bench_network(BenchRequest(small_file(tmp_path), ("litert",), 1, 2, 4))
    _, theirs = found.rows
    assert theirs.engine in ("litert", "litert_cached") and theirs.ratio is not None
    assert theirs.difference is not None and theirs.difference < 1e-3 and not theirs.note


def test_engines_that_are_missing_are_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Peer("Absent", "no_such_module_at_all", "pip install absent", ("absent",))
    monkeypatch.setitem(bench.PEERS, "absent", absent)
    found = bench_network(BenchRequest(small_file(tmp_path), ("absent",), 1, 2, 4))
    assert found.missing == {"absent": "pip install absent"} and len(found.rows) == 1


def test_figures_that_cannot_be_trusted_are_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    row = bench.EngineRow("circlet", Interval(2, 1, 3), None, 1, 1, None, "", "", {})
    assert "200 % only" in bench._noise([row], None)
    steady = bench.EngineRow("circlet", Interval(2, 2, 2.1), None, 1, 1, None, "", "", {})
    assert bench._noise([steady], None) == ""


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such engine"):
        bench_network(BenchRequest(small_file(tmp_path), ("tensorrt",), 1, 2, 4))
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"\0" * 64)
    assert circlet("bench", broken).exit_code == 1


def test_flags_of_litert_mean_the_same(tmp_path: Path) -> None:
    words = ("--num_threads", 1, "--num_runs", 4, "--warmup_runs", 1, "--rounds", 2)
    found = as_json("bench", "--graph", small_file(tmp_path), *words)
    assert found["threads"] == 1 and found["rows"][0]["engine"] == "circlet"
    assert found["is_noisy"] in (True, False)
    assert circlet("bench").exit_code == 2


def test_sizes_are_those_given_or_those_that_the_network_works_for(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="other files state a size beside an open one")
    path = tmp_path / "open.onnx"
    path.write_bytes(networks.open_window())
    few = ("--threads", 1, "--rounds", 2, "--runs", 2)
    assert as_json("bench", path, *few)["macs"] == 30 * 30 * 9
    given = ("--shape", "x=1,12,8,1")
    assert as_json("bench", path, *few, *given)["macs"] == 10 * 6 * 9
    error = as_json("bench", path, *few, "--shape", "q=1,8,8,1", code=1)["error"]
    assert (error["code"], error["where"]) == ("E-INPUT", "q")


def test_a_network_that_circlet_cannot_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "compare", lambda *_, **__: Compared(refused={"circlet": "x"}))
    with pytest.raises(BackendError, match="does not run"):
        bench_network(BenchRequest(small_file(tmp_path), **FEW))  # type: ignore[arg-type]
