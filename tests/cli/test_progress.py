"""Progress is for people at a terminal."""

from __future__ import annotations

import pytest

from circlet.cli.progress import working


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with working("compiling", 3) as progress:
        progress(1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_what_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with working("compiling", 3) as progress:
        progress(2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "compiling" in shown.err
