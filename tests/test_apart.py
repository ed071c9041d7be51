"""Functions in a process of their own: answers, errors, what is heard, and every way to end."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from circlet.apart import Apart, LostError, Tell
from circlet.errors import BackendError, DeadlineError, InputError
from circlet.progress import Progress, Stage, listening
from tests.child import environment

LIMIT_S = 60.0


@pytest.fixture(name="apart", scope="module")
def apart_fixture() -> Iterator[Apart]:
    with Apart() as apart:
        yield apart


def process_of(tell: Tell) -> int:
    return os.getpid()


def told(tell: Tell, *steps: str) -> str:
    for step in steps:
        tell(step, LIMIT_S)
    logging.getLogger("circlet.test").warning("about %s", steps[-1])
    Stage("working", 2, "steps").advance(1)
    os.write(1, b"engines print to standard output\n")
    return "done"


def failing(tell: Tell, kind: str) -> None:
    if kind == "circlet":
        raise InputError("it is wrong", where="here")
    raise KeyError(kind)


def ending(tell: Tell, how: str, steps: tuple[str, ...] = ()) -> None:
    for step in steps:
        tell(step, LIMIT_S)
    if how == "hang":
        tell("hanging", 0.1)
        time.sleep(1000)
    if how == "exit":
        os.write(2, b"nothing\nout of luck\n")
        os._exit(3)
    os.kill(os.getpid(), signal.Signals[how])


def test_one_process_serves_call_after_call(apart: Apart) -> None:
    first = apart.call(process_of, limit_s=LIMIT_S)
    assert first == apart.call(process_of, limit_s=LIMIT_S) != os.getpid()


def test_what_is_told_logged_and_done_is_heard(
    apart: Apart, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "circlet")
    heard: list[str] = []
    seen: list[Progress] = []
    with listening(seen.append):
        answer = apart.call(told, "one", "two", limit_s=LIMIT_S, heard=heard.append)
    assert (answer, heard) == ("done", ["one", "two"])
    assert "about two" in caplog.text
    assert [at.done for at in seen if at.stage == "working"] == [0, 1]
    while "engines print to standard output" not in caplog.text:
        time.sleep(0.01)
    assert capfd.readouterr() == ("", "")


def test_errors_are_those_of_the_function_and_the_process_lives_on(apart: Apart) -> None:
    before = apart.call(process_of, limit_s=LIMIT_S)
    with pytest.raises(InputError, match="it is wrong") as caught:
        apart.call(failing, "circlet", limit_s=LIMIT_S)
    assert caught.value.where == "here"
    with pytest.raises(BackendError, match="KeyError: 'other'"):
        apart.call(failing, "other", limit_s=LIMIT_S)
    assert apart.call(process_of, limit_s=LIMIT_S) == before


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("SIGSEGV", "was ended by SIGSEGV"),
        ("SIGABRT", "was ended by SIGABRT"),
        ("exit", "ended with status 3, and last printed: out of luck"),
    ],
)
def test_a_crash_is_an_error_that_says_how_and_the_next_call_is_answered(
    apart: Apart, how: str, why: str
) -> None:
    heard: list[str] = []
    with pytest.raises(LostError, match=why) as caught:
        apart.call(ending, how, ("open", "run"), limit_s=LIMIT_S, heard=heard.append)
    assert heard == ["open", "run"]
    assert isinstance(caught.value.coded("it failed", "here"), BackendError)
    assert apart.call(process_of, limit_s=LIMIT_S) != os.getpid()


def test_what_hangs_is_ended_after_the_time_that_it_told(apart: Apart) -> None:
    process = apart.call(process_of, limit_s=LIMIT_S)
    with pytest.raises(LostError, match=r"nothing was heard of it for 0\.1 s") as caught:
        apart.call(ending, "hang", limit_s=LIMIT_S)
    assert isinstance(caught.value.coded("it hangs", "here"), DeadlineError)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def sleeping(tell: Tell) -> None:
    tell("sleeping", LIMIT_S)
    time.sleep(1000)


DRIVER = """
from circlet.apart import Apart
from tests.test_apart import process_of, sleeping
apart = Apart()
print(apart.call(process_of, limit_s=60), flush=True)
try:
    apart.call(sleeping, limit_s=60, heard=lambda told: print(told, flush=True))
except KeyboardInterrupt:
    print("heard", flush=True)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_process_that_called(sent: signal.Signals) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=Path(__file__).parents[1],
    )
    assert driver.stdout is not None
    child = int(driver.stdout.readline())
    assert driver.stdout.readline() == "sleeping\n"
    driver.send_signal(sent)
    rest, _ = driver.communicate(timeout=60)
    assert rest == ("heard\n" if sent == signal.SIGINT else "")
    end = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()
