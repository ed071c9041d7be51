"""Functions called in a process of their own, whose crash or hang is an error and not the end.

The process lasts from call to call, so that what it has imported and read serves the next one.
What it logs and how far it has come is heard here, and what it prints is logged: engines tell
terminals what no user asked for. Nothing of it lives on when this process is gone, nor when a call
is interrupted.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any

from circlet.errors import BackendError, CircletError, DeadlineError
from circlet.escape import escaped
from circlet.forking import close_here, keep_from_children, undivided
from circlet.leash import end_with_pipe
from circlet.progress import listening, relay

Tell = Callable[[object, float], None]
"""Called in the process with what it is about to do, and the seconds that this may take."""

_PACKAGES = Path(__file__).parents[1]
_SERVE = "from circlet.apart import serve; serve({}, {})"
_LOGGER = "circlet"
_LAST_WORDS_S = 5.0  # what printed is gone by then
LOGGER = logging.getLogger(__name__)
_ANSWER, _ERROR, _TOLD, _PROGRESS, _LOG = range(5)


class LostError(Exception):
    """A process crashed, or nothing was heard of it for too long.

    Attributes:
        why: What became of it, in a clause.
        is_late: Whether it was ended because nothing was heard of it.
    """

    def __init__(self, why: str, *, is_late: bool = False) -> None:
        self.why, self.is_late = why, is_late
        super().__init__(why)

    def coded(self, what: str, where: str) -> CircletError:
        """The error that a user is told."""
        kind = DeadlineError if self.is_late else BackendError
        return kind(what, where=where, why=self.why, fix="leave this backend out")


class Apart:
    """A process that calls functions for this one; it is started by the first call.

    One thread at a time may call.
    """

    def __init__(self) -> None:
        self._child: _Child | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: object,
        limit_s: float,
        heard: Callable[[Any], None] = lambda told: None,
    ) -> Any:
        """What a function returns there for a `Tell` and these arguments.

        Args:
            function: One of a module; arguments and answer can be pickled.
            limit_s: How long nothing may be heard, until the function tells another limit.
            heard: Is called with everything that the function tells.

        Raises:
            LostError: The process crashed, or was ended because nothing was heard of it.
            CircletError: What the function raised.
        """
        try:
            child = self._child = self._child or _Child()
            is_error, value = child.answer((function, arguments), limit_s, heard)
        except BaseException:
            self.close()
            raise
        if is_error:
            raise value
        return value

    def close(self) -> None:
        """End the process, whatever it does."""
        child, self._child = self._child, None
        if child is not None:
            child.close()


class _Child:
    """The process, seen from this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, undivided():  # a child forked midway would hold the pipe open
            end, self._leash = os.pipe()
            keep_from_children(self._leash)
            try:
                self._process = _started(theirs.fileno(), end)
            except BaseException:
                close_here(self._leash)
                raise
            finally:
                os.close(end)
            self._connection = Connection(ours.detach())
        self._last_line = ""
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Log what is printed, line by line, until nobody can print any more."""
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                self._last_line = escaped(line.decode(errors="replace").strip())
                LOGGER.info("printed in a process of its own: %s", self._last_line)

    def answer(
        self, request: object, limit_s: float, heard: Callable[[Any], None]
    ) -> tuple[bool, Any]:
        """Whether an answer is an error, and the answer; raises LostError."""
        level = logging.getLogger(_LOGGER).getEffectiveLevel()
        try:
            self._connection.send((sys.path, level, pickle.dumps(request)))
            while True:
                kind, value = self._message(limit_s)
                if kind in (_ANSWER, _ERROR):
                    return kind == _ERROR, value
                if kind == _TOLD:
                    told, limit_s = value
                    heard(told)
                elif kind == _PROGRESS:
                    relay(value)
                else:
                    logging.getLogger(value.name).handle(value)
        except (EOFError, ConnectionError):
            raise LostError(f"the process that ran it {self._ending()}") from None

    def _message(self, limit_s: float) -> tuple[int, Any]:
        until = monotonic() + limit_s
        while not self._connection.poll(max(0.0, until - monotonic())):
            if monotonic() >= until:
                raise LostError(f"nothing was heard of it for {limit_s:g} s", is_late=True)
        kind, value = self._connection.recv()
        return kind, value

    def _ending(self) -> str:
        end = _end_of(self._process.wait())
        self._listener.join(_LAST_WORDS_S)
        return f"{end}, and last printed: {self._last_line}" if self._last_line else end

    def close(self) -> None:
        """Kill it and all that it started, and let go of it."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listener.join(_LAST_WORDS_S)
        self._connection.close()
        close_here(self._leash)


def _end_of(status: int) -> str:
    """What an exit status says, in a clause."""
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def _started(connection: int, leash: int) -> subprocess.Popen[bytes]:
    """The process, in a group of its own: what a terminal sends reaches the caller alone."""
    paths = [str(_PACKAGES), os.environ.get("PYTHONPATH", "")]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE.format(connection, leash)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            pass_fds=(connection, leash),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        raise BackendError(
            "a process to measure in cannot be started",
            where=sys.executable,
            why=error.strerror or str(error),
            fix="end other programs, or raise the limits of memory and processes (ulimit -v, -u)",
        ) from error


def serve(connection: int, leash: int) -> None:
    """Call what is asked for until nobody asks any more; the other side of `Apart`."""
    end_with_pipe(leash, -os.getpid())
    pipe, lock = Connection(connection), Lock()

    def send(kind: int, value: object) -> None:
        with lock:
            pipe.send((kind, value))

    logging.getLogger(_LOGGER).addHandler(_Forwarding(send))
    with suppress(EOFError, ConnectionError), listening(lambda at: send(_PROGRESS, at)):
        while True:
            path, level, request = pipe.recv()
            sys.path[:] = path
            logging.getLogger(_LOGGER).setLevel(level)
            send(*_answered(request, lambda told, limit_s: send(_TOLD, (told, limit_s))))


def _answered(request: bytes, tell: Tell) -> tuple[int, object]:
    try:
        function, arguments = pickle.loads(request)
        return _ANSWER, function(tell, *arguments)
    except CircletError as error:
        return _ERROR, error
    except Exception as error:  # whatever a backend, or a module of another package, raises
        why = f"{type(error).__name__}: {error}"
        return _ERROR, BackendError("what ran in a process of its own failed", why=why)


class _Forwarding(QueueHandler):
    """Sends what is logged to the other process, as text where it cannot be pickled."""

    def __init__(self, send: Callable[[int, object], None]) -> None:
        super().__init__(SimpleQueue())
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send a record that was prepared."""
        self._send(_LOG, record)
