"""A process may be forked whatever its other threads are doing; parent and child go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.forks import OPERATIONS

ROOT = Path(__file__).parents[2]
PARENT_S = 240


def forked(operation: str, count: int, backend: str) -> None:
    command = [sys.executable, "-m", "tests.runtime.forks", operation, str(count), backend]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PARENT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("operation", OPERATIONS)
def test_children_of_busy_processes_run_networks_and_end(operation: str) -> None:
    forked(operation, 3, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_child_of_many_hangs(operation: str, backend: str) -> None:
    forked(operation, 12 if operation == "doctor" else 60, backend)
