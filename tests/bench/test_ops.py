"""Operators as networks of their own: what is cut out of networks, the grid, and the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.onnx_grid import onnx_grid
from bench.ops import Row, summary
from bench.ops_cases import cases_of
from bench.ops_grid import grid
from bench.synthetic import network
from circlet import Session
from circlet.comparison.ratios import Interval
from circlet.errors import CircletError
from tests.bench.files import need, small_file


def test_operators_of_networks_are_cut_out_once_with_their_share(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.tflite").write_bytes(network("int8", 2, 16))
    found = cases_of(sorted(tmp_path.iterdir()), least_work=1)
    kinds = [case.kind for case in found]
    # Two blocks of a depthwise and a 1x1 convolution are alike, so each is one case.
    assert sorted(kinds) == sorted(
        ["CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "FULLY_CONNECTED"]
    )
    assert {case.networks for case in found} == {2}
    assert sum(case.share for case in found) == pytest.approx(2.0)
    session = Session(found[0].content, backends=("reference",))
    assert len(session.outputs) == 1


def test_small_operators_and_unreadable_files_are_left_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"no network")
    paths = [broken, small_file(tmp_path)]
    assert {case.kind for case in cases_of(paths, least_work=100_000)} <= {
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
    }


@pytest.mark.slow
def test_every_case_of_the_grid_opens_natively() -> None:
    names = set()
    for case in grid():
        try:
            Session(case.content, backends=("cpu",), strict=True, level="O0")
        except CircletError as error:
            pytest.fail(f"{case.name}: {error}")
        names.add(case.name)
    assert len(names) > 100


@pytest.mark.slow
def test_every_case_of_the_onnx_grid_opens() -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    names = []
    for case in onnx_grid():
        try:
            Session(case.content, level="O0")
        except CircletError as error:
            pytest.fail(f"{case.name}: {error}")
        names.append(case.name)
    assert len(names) == len(set(names)) > 100


def test_the_costliest_losses_come_first() -> None:
    def row(name: str, share: float, least: float) -> Row:
        ratio = Interval(least, least, least)
        return Row(name, "ADD", share, 1, {"circlet": 9.0, "litert": 9.0}, "litert", ratio, least)

    text = summary([row("rare", 0.1, 0.2), row("common", 0.9, 0.6), row("fast", 0.9, 1.5)])
    lines = text.splitlines()
    assert [line.split()[-1] for line in lines[-3:-1]] == ["common", "rare"]
    assert lines[-1] == "2 of 3 operators"
    assert "36.00  0.60   1  common" in text


@pytest.mark.slow
def test_the_command_measures_and_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need("litert")
    target = tmp_path / "ops.json"
    words = ["--kinds", "softmax", "--no-grid", "--list"]
    monkeypatch.setattr(sys, "argv", ["bench", "ops", str(small_file(tmp_path)), *words])
    with pytest.raises(SystemExit):
        bench.main()
    few = ["--kinds", "CONV_2D", "--no-grid", "--least-work", "1", "--most", "1", "--rounds", "2"]
    paths = ["bench", "ops", str(small_file(tmp_path)), *few, "--json", str(target)]
    monkeypatch.setattr(sys, "argv", paths)
    bench.main()
    assert "geometric mean, lowest" in capsys.readouterr().out
    (row,) = json.loads(target.read_text())["rows"]
    assert row["kind"] == "CONV_2D"
    assert "circlet" in row["us"]
