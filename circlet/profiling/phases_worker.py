"""A process of its own that opens and runs a network, and tells what memory it had in each phase.

Run as a script, it imports nothing of Circlet before it has looked at its memory once. Standard
input holds the request as JSON, standard output the answer. As in ONE's runner, somebody looks
every 5 ms: of a phase the largest RSS and PSS count, and its last high-water mark.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

INTERVAL_S = 0.005
PAGE = mmap.PAGESIZE
_STATUS, _ROLLUP = "/proc/self/status", "/proc/self/smaps_rollup"


def main() -> None:
    """Answer one request; errors of the network are the caller's, who has planned it before."""
    request = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr
    phases: list[dict[str, object]] = []

    def phase(name: str, work: Callable[[], object]) -> Any:
        start = time.perf_counter()
        with Poller() as poller:
            made = work()
        phases.append({"phase": name, "ms": (time.perf_counter() - start) * 1e3, **poller.found()})
        return made

    phase("start", lambda: __import__("numpy") and __import__("circlet.runtime.session"))
    weights = _phases(request, phase)
    print(json.dumps({"phases": phases, "weights": weights}), file=answers)


def _phases(
    request: dict[str, Any], phase: Callable[[str, Callable[[], object]], Any]
) -> dict[str, int]:
    from circlet.formats import load
    from circlet.limits import Limits
    from circlet.options import Options
    from circlet.runtime.session import Session

    path, limits = Path(request["model"]), Limits(**request["limits"])
    known: dict[str, Any] = {**request["options"], "limits": limits}
    known["backends"] = tuple(known["backends"])
    known["backend_of"] = tuple(map(tuple, known["backend_of"]))
    known["shapes"] = tuple((name, tuple(sizes)) for name, sizes in known["shapes"])
    phase("load", lambda: load(path, limits) and None)
    session = phase(
        "compile", lambda: Session.of(path, Options(**known), threads=request["threads"])
    )
    given = [value.empty() for value in session.inputs]
    for array in given:
        if not array.dtype.hasobject:
            array[...] = 0
    phase("first run", lambda: session.run(given))
    phase("run", lambda: _repeated(lambda: session.run(given), request["seconds"]))
    return weights_of(session.opened.partitions)


def _repeated(call: Callable[[], object], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        call()


class Poller:
    """Looks at this process's memory again and again until the block ends."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._rss = self._pss = self._hwm = 0
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Poller:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def found(self) -> dict[str, int]:
        """Bytes: the largest RSS and PSS, and the high-water mark at the end."""
        return {"rss_bytes": self._rss, "hwm_bytes": self._hwm, "pss_bytes": self._pss}

    def _poll(self) -> None:
        while not self._done.wait(INTERVAL_S):
            self._look()

    def _look(self) -> None:
        status = _fields(_STATUS)
        self._rss = max(self._rss, status.get("VmRSS", 0))
        self._hwm = status.get("VmHWM", 0)
        self._pss = max(self._pss, _fields(_ROLLUP).get("Pss", 0))


def _fields(path: str) -> dict[str, int]:
    """The sizes in a file of the process, in bytes; nothing where the system has no such file."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    words = (line.split() for line in text.splitlines())
    return {w[0].rstrip(":"): int(w[1]) << 10 for w in words if len(w) == 3 and w[2] == "kB"}


def weights_of(partitions: list[Any]) -> dict[str, int]:
    """Bytes of the packed weights that are loaded, and of the pages of them that are in memory."""
    arrays = [getattr(part.code, "constants", None) for part in partitions]
    known = {a.ctypes.data: a.nbytes for a in arrays if a is not None and a.nbytes}
    resident = sum(_resident(address, size) for address, size in known.items())
    return {"weights_bytes": sum(known.values()), "resident_bytes": resident}


def _resident(address: int, size: int) -> int:
    """How many bytes of a range are in memory; all of them where the system does not say."""
    start = address - address % PAGE
    pages = (address + size - start + PAGE - 1) // PAGE
    seen = (ctypes.c_ubyte * pages)()
    where, length = ctypes.c_void_p(start), ctypes.c_size_t(pages * PAGE)
    if ctypes.CDLL(None, use_errno=True).mincore(where, length, seen):
        return size
    return min(size, sum(page & 1 for page in seen) * PAGE)


if __name__ == "__main__":
    main()
