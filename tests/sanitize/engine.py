"""Runs networks under sanitizers and says what became of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import EXCEPTIONS
from tests.sanitize.modes import MODES, NOTE_BYTES

TIMEOUT_S = 280.0
_ROOT = Path(__file__).parents[2]
_SHOWN_LINES = 12


@dataclass(frozen=True)
class Outcome:
    """What a sanitizer found in a network: nothing, or where and what."""

    network: str
    mode: str
    finding: str = ""
    detail: str = ""


def sanitize(network: str, mode: str, timeout_s: float = TIMEOUT_S) -> Outcome:
    """Run the golden cases of one network of the corpus."""
    try:
        done, step = run_watched("tests.sanitize.worker", network, mode, timeout_s)
    except subprocess.TimeoutExpired:
        return Outcome(network, mode, f"no end after {timeout_s:.0f} s")
    if done.returncode:
        return Outcome(network, mode, f"{_end(done.returncode)} in {step}", _head(done.stderr))
    passed, native, detail = json.loads(done.stdout.splitlines()[-1])
    wrong = not passed and network not in EXCEPTIONS
    return Outcome(network, mode, "wrong answers" if wrong else "", f"{native} {detail}")


def run_watched(
    module: str, subject: str, mode: str, timeout_s: float = TIMEOUT_S
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a module that installs a mode; how it ended, and the last step that it began."""
    with tempfile.TemporaryDirectory(prefix="circlet-sanitize-") as folder:
        note = Path(folder) / "note"
        note.write_bytes(bytes(NOTE_BYTES))
        done = subprocess.run(
            [sys.executable, "-m", module, subject, mode, str(note)],
            cwd=_ROOT,
            env={**os.environ, **MODES[mode].environment(), "CIRCLET_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return done, note.read_bytes().rstrip(b"\0").decode(errors="replace")


def _end(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _head(text: str) -> str:
    """The lines that say most: the first of a sanitizer's report, the last of Python's."""
    lines = text.splitlines()
    return "\n".join(lines[-_SHOWN_LINES:] if "Traceback" in text else lines[:_SHOWN_LINES])
