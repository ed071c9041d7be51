"""How far long work has come, told to whoever listens; nobody does unless asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from circlet.struct import Struct


class Progress(Struct):
    """How far one stage of work has come.

    Attributes:
        stage: What is done, such as "compiling".
        done, total: How much of it is behind, and how much there is in all, in units of `noun`.
        noun: What is counted, such as "kernels"; "seconds" pass whether or not anybody says so.
        note: What is at work just now, "" where there is no more to say.
    """

    stage: str
    done: float
    total: float
    noun: str
    note: str = ""


Listener = Callable[[Progress], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a listener what this thread works on until the block ends."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def relay(progress: Progress) -> None:
    """Tell this thread's listener what another process has come to."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(progress)


class Stage:
    """A stage of work, announced when it is made; threads that share it may advance it.

    The listener is that of the thread that makes it.
    """

    def __init__(self, name: str, total: float, noun: str) -> None:
        self._listener = _LISTENER.get()
        self._lock = Lock()
        self._at = Progress(name, 0, total, noun)
        self.advance(0)

    def advance(self, amount: float) -> None:
        """So much more is done."""
        with self._lock:
            self._tell(self._at.done + amount)

    def note(self, text: str) -> None:
        """What is at work now."""
        with self._lock:
            self._at = self._at._replace(note=text)
            self._tell(self._at.done)

    def _tell(self, done: float) -> None:
        self._at = self._at._replace(done=min(done, self._at.total))
        if self._listener is not None:
            self._listener(self._at)
