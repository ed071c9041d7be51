"""The processes of a fleet, as commands of a user's, and what ends them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import child

ROOT = Path(__file__).parents[2]
_LONGEST_S = 240


@dataclass
class Fleet:
    """Processes that are started in a folder, and killed at the end.

    Attributes:
        scheduler: The address of the scheduler, once it runs.
    """

    folder: Path
    scheduler: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """A command that goes on while the test does."""
        log = self.folder / f"log{len(self.started)}"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "circlet", *arguments],
                cwd=self.folder,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env=child.environment(),
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def said(self, process: subprocess.Popen[str]) -> str:
        """What a command has printed."""
        return (self.folder / f"log{self.started.index(process)}").read_text()

    def call(self, arguments: Sequence[str]) -> Any:
        """The JSON that a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "circlet", *arguments, "--json"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            env=child.environment(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def serve(self, arguments: Sequence[str]) -> None:
        """Start the scheduler, and wait for its address."""
        process = self.start(arguments)
        until(lambda: "://" in self.said(process))
        self.scheduler = self.said(process).split()[-1]


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    """A fleet whose processes, and those that they started, end with the block."""
    made = Fleet(folder)
    try:
        yield made
    finally:
        for process in made.started:
            for each in (*children(process.pid), process.pid):
                kill(each)
            process.wait(timeout=30)


def children(process: int) -> list[int]:
    """The processes that a process started, and those that these did."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return [*found, *(each for child in found for each in children(child))]


def kill(process: int) -> None:
    """End a process as `kill -9` does, if it is there."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def until(holds: Callable[[], bool], seconds: float = _LONGEST_S) -> None:
    """Wait until something holds; it is no promise about time that it does soon."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.4)
