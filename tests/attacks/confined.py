"""Runs the command line in a process of its own that may take little time and memory."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests import child

MOST_PROCESSOR_S = 60
MOST_ADDRESSES = 6 << 30
MOST_RESIDENT_KIB = 1_500_000


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        status: Exit status; negative for a signal.
        code: That of the error, "" for none.
        seconds: Wall time, or the processor's where that is less: the machine is busy then.
        resident_kib: Peak memory.
        output: What it printed.
    """

    status: int
    code: str
    seconds: float
    resident_kib: int
    output: str


def run_confined(*arguments: object, folder: Path) -> Ended:
    """`circlet` with these arguments; what it prints goes to a file in the folder."""
    command = [sys.executable, "-m", "circlet", *map(str, arguments)]
    environment = child.environment(
        CIRCLET_CACHE_DIR=str(folder / "c"),
        OPENBLAS_NUM_THREADS="1",  # it takes addresses for each core of the machine
    )
    start = time.monotonic()
    with (folder / "printed").open("w+") as printed:
        process = subprocess.Popen(
            command, stdout=printed, stderr=subprocess.STDOUT, env=environment, preexec_fn=_confine
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        output = printed.read()
    found = re.search(r"^\[(E-[A-Z-]+)\]", output, re.MULTILINE)
    seconds = min(time.monotonic() - start, used.ru_utime + used.ru_stime)
    code = found[1] if found else ""
    return Ended(process.returncode, code, seconds, used.ru_maxrss, output)


def _confine() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_PROCESSOR_S, MOST_PROCESSOR_S))
