"""Threads of a session that help its runs; none before there is something to help with."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from circlet.forking import renew_in_children

Job = Callable[[], None]
_Jobs = SimpleQueue[Job | None]


class Workers:
    """Threads that take jobs in turn; they end when nobody holds this object any more.

    A job must not raise. Threads are daemons: what they wait for does not keep a process alive.

    Args:
        most: How many threads there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._start_afresh()
        renew_in_children(self)

    def _start_afresh(self) -> None:
        self._jobs: _Jobs = SimpleQueue()
        self._count = 0
        self._idle = 0
        self._end = weakref.finalize(self, _end, self._jobs, self._most)

    def renew_after_fork(self) -> None:
        """Begin without threads: those of the process that was forked are not here."""
        self._end.detach()
        self._lock = threading.Lock()
        self._start_afresh()

    def submit(self, job: Job) -> None:
        """Have a thread do a job as soon as one is free."""
        with self._lock:
            starts = self._idle <= 0 and self._count < self._most
            self._count += starts
            self._idle += 0 if starts else -1  # below 0: jobs that wait for a thread
        self._jobs.put(job)
        if starts:
            work = weakref.WeakMethod(self._is_free)
            name = "circlet-worker"
            threading.Thread(target=_work, args=(self._jobs, work), name=name, daemon=True).start()

    def _is_free(self) -> None:
        with self._lock:
            self._idle += 1


def _work(jobs: _Jobs, is_free: weakref.WeakMethod[Callable[[], None]]) -> None:
    """Do jobs until there is a None among them; hold nothing that jobs held."""
    while (job := jobs.get()) is not None:
        job()
        del job
        tell = is_free()
        if tell is None:
            return
        tell()
        del tell


def _end(jobs: _Jobs, most: int) -> None:
    for _ in range(most):
        jobs.put(None)
