"""Long work says how far it is: at once on a terminal, now and then elsewhere."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from circlet.cli import progress
from circlet.cli.progress import working
from circlet.commands.compile import CompileRequest, compile_to_file
from circlet.options import Options
from circlet.progress import Progress, Stage, listening
from tests.runtime import networks


def wait_for(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wait until standard error shows a pattern; standard output is to show nothing meanwhile."""
    shown = ""
    while not re.search(pattern, shown):
        time.sleep(0.01)
        out, more = capsys.readouterr()
        assert out == ""
        shown += more


def test_short_work_says_nothing_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with working("compiling"):
        Stage("compiling", 3, "kernels").advance(1)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_now_and_then_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_S", 0.05)
    with working("compiling"):
        Stage("compiling", 4, "kernels").advance(1)
        wait_for(r"^compiling: 1 of 4 kernels, about \d+ s left\n", capsys)


def test_work_of_which_nothing_is_counted_says_how_long_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_S", 0.05)
    with working("timing engines"):
        wait_for(r"^timing engines, \d+ s so far\n", capsys)


def test_seconds_pass_by_themselves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_S", 0.05)
    with working("compiling"):
        Stage("tuning for generic", 0.1, "seconds").note("measuring 3 kernels")
        wait_for("seconds, measuring 3 kernels\n", capsys)


def test_a_terminal_sees_what_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with working("compiling"):
        Stage("compiling", 3, "kernels").advance(2)
        wait_for("compiling: 2 of 3 kernels", capsys)


@pytest.mark.parametrize("tune_seconds", [0.0, 0.3])
def test_compiling_counts_kernels_and_tuning_seconds(tmp_path: Path, tune_seconds: float) -> None:
    heard: list[Progress] = []
    model = tmp_path / "m.tflite"
    model.write_bytes(networks.relu())
    options = Options(cache=False, tune_seconds=tune_seconds)
    with listening(heard.append):
        compile_to_file(CompileRequest(tmp_path / "a.circlet", model, options))
    stages = {at.stage.partition(" for ")[0]: at for at in heard}
    if tune_seconds:
        assert stages["tuning"].total == tune_seconds
    else:
        last = stages["compiling"]
        assert last.done == last.total == 1 and last.noun == "kernels"
