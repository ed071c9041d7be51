"""Memory of a process that opens and runs a network, phase by phase: a fresh one is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circlet.errors import BackendError
from circlet.options import Options

_WORKER = Path(__file__).with_name("phases_worker.py")
_PACKAGE = Path(__file__).parents[2]
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Phase:
    """One phase of a process.

    Attributes:
        phase: "start" (Python, numpy, Circlet), "load" (the file is read), "compile" (a session is
            opened: compiled, or found in the cache), "first run", "run".
        ms: How long it took.
        rss_bytes, pss_bytes: The most seen of resident memory, and of that in proportion to how
            many processes share it.
        hwm_bytes: The most resident memory that the process had up to its end.
    """

    phase: str
    ms: float
    rss_bytes: int
    hwm_bytes: int
    pss_bytes: int


@dataclass(frozen=True)
class ProcessMemory:
    """What a process used.

    Attributes:
        phases: In order.
        weights_bytes, resident_bytes: Packed weights that are loaded, and what of them is in memory
            after the runs. They lie in the process's own memory: no file is ever mapped.
    """

    phases: tuple[Phase, ...]
    weights_bytes: int
    resident_bytes: int

    @property
    def used_peak_bytes(self) -> int:
        """The high-water mark at the end less that before the network was touched."""
        return self.phases[-1].hwm_bytes - self.phases[0].hwm_bytes


def measure_phases(
    model: Path, options: Options, threads: int, seconds: float = 0.2
) -> ProcessMemory:
    """Open and run a model's file in a fresh process, on zeros, and take down its memory.

    Raises:
        BackendError: The process failed.
    """
    known = {**options._asdict(), "limits": None}
    request = {
        "model": str(model.resolve()),
        "options": known,
        "limits": options.limits._asdict(),
        "threads": threads,
        "seconds": seconds,
    }
    command = [sys.executable, "-P", str(_WORKER)]
    paths = [str(_PACKAGE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(model, f"it took more than {TIMEOUT_S:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise _failed(model, lines[-1] if lines else f"it ended with status {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return ProcessMemory(tuple(Phase(**row) for row in answer["phases"]), **answer["weights"])


def _failed(model: Path, why: str) -> BackendError:
    return BackendError(
        "the process that was to be measured failed",
        where=str(model),
        why=why,
        fix="run the network with circlet run; --no-process leaves this measurement out",
    )
