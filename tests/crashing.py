"""A backend of another package that ends its process, or hangs, where the environment says so.

It is installed as other packages are, by metadata in a folder of Python's path, so that processes
that are started find it too.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from circlet.backends.registry import GROUP, find_backend
from tests.runtime.faulty import Behaviour, FaultyBackend

NAME = "faulty"
ABORTS, HANGS = "CIRCLET_TEST_ABORTS", "CIRCLET_TEST_HANGS"
MEMORY = "CIRCLET_TEST_MEMORY"


@dataclass
class Ending(Behaviour):
    """Takes TANH, and goes no further than the stages that the environment names."""

    def check(self, stage: str) -> None:
        """Abort, or sleep for as long as nobody ends the process."""
        if stage == os.environ.get(ABORTS):
            os.abort()
        while stage == os.environ.get(HANGS):
            time.sleep(1.0)


def make() -> FaultyBackend:
    """What the entry point calls."""
    return FaultyBackend(Ending(memory=os.environ.get(MEMORY, "")))


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, **stages: str) -> None:
    """Have this process, and those that it starts, find the backend.

    Args:
        stages: Where it `aborts` or `hangs`; and the kind of its `memory`.
    """
    about = folder / "crashing-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{NAME} = tests.crashing:make\n")
    monkeypatch.syspath_prepend(folder)
    for name, key in (("aborts", ABORTS), ("hangs", HANGS), ("memory", MEMORY)):
        monkeypatch.setenv(key, stages.get(name, ""))
    find_backend.cache_clear()
