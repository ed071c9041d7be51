"""Ctrl-C ends a command within about a second, with the exit code that shells expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from circlet.sample import Sample

_SLOW = """#!/bin/sh
case "$*" in
  *--version*) echo gcc; exit 0 ;;
esac
echo $$ >> {pids}
sleep 600
"""
_WAIT_S = 120  # one second on an idle machine; what it ends sleeps for 600


@pytest.mark.parametrize("command", ["run", "compile"])
def test_ctrl_c_while_compiling_kills_the_compilers(tmp_path: Path, command: str) -> None:
    compiler, pids = tmp_path / "cc", tmp_path / "pids"
    compiler.write_text(_SLOW.format(pids=pids))
    compiler.chmod(0o755)
    output = tmp_path / "out.circlet"
    more = ["-o", str(output)] if command == "compile" else []
    process = subprocess.Popen(
        [sys.executable, "-m", "circlet", command, str(Sample().model_path), *more],
        env={
            **os.environ,
            "CIRCLET_CC": str(compiler),
            "CIRCLET_CACHE_DIR": str(tmp_path / "cache"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and not (pids.exists() and len(pids.read_text().split()) > 1):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_WAIT_S)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert not output.exists()
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.slow
def test_ctrl_c_while_running_ends_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "circlet", "run", "--repeat", "1000", "--delay", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_WAIT_S)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
