"""What long work shows: a line that changes on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from circlet.cli.console import say
from circlet.progress import Progress, listening

_LINE_S = 10.0
_REFRESH_S = 0.25
_SHARE_TO_JUDGE = 0.05


class _Clock:
    """The stage that goes on, as text with the time that it has left."""

    def __init__(self, text: str) -> None:
        self._at = Progress(text, 0, 0, "")
        self._start = self._moved = monotonic()

    def hear(self, at: Progress) -> None:
        """Take down how far the work has come."""
        if at.stage != self._at.stage:
            self._start = monotonic()
        self._moved = monotonic()
        self._at = at

    def text(self) -> str:
        """What goes on, how much of it is done, and how long it takes yet, or took so far."""
        at, passed = self._at, monotonic() - self._start
        if at.total and at.noun == "seconds":
            return self._joined(
                f"{at.stage}: {min(passed, at.total):.0f} of {at.total:.0f} seconds"
            )
        counted = f"{at.stage}: {at.done:.0f} of {at.total:.0f} {at.noun}" if at.total else at.stage
        share = at.done / at.total if at.total else 0.0
        if _SHARE_TO_JUDGE <= share < 1:
            whole = (self._moved - self._start) / share
            return self._joined(counted, f"about {_duration(whole - passed)} left")
        return self._joined(counted, f"{_duration(passed)} so far" if passed >= _LINE_S else "")

    def _joined(self, *parts: str) -> str:
        return ", ".join(filter(None, [*parts, self._at.note]))


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show what goes on until the block ends, as `circlet.progress` tells it."""
    clock = _Clock(text)
    if sys.stderr is None:
        yield
    elif sys.stderr.isatty():
        from rich.console import Console

        status = Console(stderr=True).status(text)
        refreshed = _every(_REFRESH_S, lambda: status.update(clock.text()))
        with status, listening(clock.hear), refreshed:
            yield
    else:
        with listening(clock.hear), _every(_LINE_S, lambda: say(clock.text(), err=True)):
            yield


@contextmanager
def _every(seconds: float, show: Callable[[], None]) -> Iterator[None]:
    """Call a function every so many seconds until the block ends."""
    over = Event()

    def ticks() -> None:
        while not over.wait(seconds):
            show()

    thread = Thread(target=ticks, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _duration(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole} s" if whole < 90 else f"{round(whole / 60)} min"
