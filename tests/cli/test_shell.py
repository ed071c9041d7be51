"""What a shell's user meets: the version, names that are mistyped, completion."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from circlet import __version__
from circlet.cli.common import duration
from tests.cli.call import circlet, in_shell


def test_the_version_comes_with_the_facts_of_a_report() -> None:
    first, *more = circlet("--version").stdout.splitlines()
    facts = dict(line.strip().split(": ", 1) for line in more)
    assert first == f"circlet {__version__}"
    assert facts["python"].endswith(platform.python_version())
    assert facts["numpy"] == np.__version__
    assert facts["cpu runtime"].startswith("ABI ")
    assert platform.system() in facts["platform"] and facts["cpu compiler"]


def test_the_version_says_that_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nonexistent")
    result = circlet("--version")
    assert result.exit_code == 0 and "cpu compiler: none: CIRCLET_CC names" in result.stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("comple", "compile"), ("INSPECT", "inspect")]
)
def test_a_mistyped_command_is_guessed(typed: str, meant: str) -> None:
    result = circlet(typed)
    assert result.exit_code == 2
    assert f"There is no command {typed!r}. Did you mean {meant}" in result.stderr


def test_a_command_like_no_other_is_not_guessed() -> None:
    assert "There is no command 'zzz'.\n" in circlet("zzz").stderr


def test_a_mistyped_option_is_guessed() -> None:
    result = circlet("run", "--inptu", "x")
    assert result.exit_code == 2 and "--input" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_completion_script(shell: str) -> None:
    done = in_shell(_CIRCLET_COMPLETE=f"{shell}_source")
    assert done.returncode == 0 and "_CIRCLET_COMPLETE" in done.stdout


def test_commands_and_options_are_completed() -> None:
    for words, at, wanted in (
        ("circlet co", "1", {"compile", "convert"}),
        ("circlet run --la", "2", {"--labels"}),
        ("circlet run --precision ", "3", {"f32", "bf16"}),
    ):
        done = in_shell(_CIRCLET_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=at)
        found = {line.partition(",")[2] for line in done.stdout.splitlines()}
        assert wanted <= found, done.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12.345, "12.3 s"),
        (1.0, "1.00 s"),
        (0.5, "500 ms"),
        (0.0123, "12.3 ms"),
        (4.2e-5, "42.0 us"),
        (0.0, "0.00 us"),
        (1234.5, "1234 s"),
    ],
)
def test_times_are_in_the_unit_that_a_person_would_choose(seconds: float, text: str) -> None:
    assert duration(seconds) == text
