"""Compilers as processes that do not outlive whoever started them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from circlet.backends.cpu.c_compiler import missing_compiler
from circlet.errors import CompileError, CompilerMissingError
from circlet.forking import close_here, keep_from_children, undivided
from circlet.leash import end_with_pipe

TIMEOUT_S = 300
_NO_ROOM = (errno.EAGAIN, errno.ENOMEM)
_WHEN_TOLD = 'read -r word && exec "$@" </dev/null'
_NOT_FOUND = (126, 127)  # what a shell ends with where it cannot start a program

Done = subprocess.CompletedProcess[str]


class Compilers:
    """The compilers of one request, each a process group; an error, or Ctrl-C, kills them all.

    The kernel kills a group as soon as this process is gone, however that comes: the group holds a
    pipe, its leash, whose other end closes then, and hears of that by SIGKILL. No compiler starts
    without one: a shell waits for the word.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._is_over = False

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:  # what this block started has ended, and others may share the object
            return
        self._is_over = True
        for process in list(self._running):
            _kill(process)

    def run(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> Done:
        """Start a compiler in a folder and wait for its end.

        Raises:
            CompilerMissingError: It cannot be started.
            CompileError: It does not end, or nobody waits for it any more.
        """
        process, leash = _started(command, folder, environment)
        self._running.add(process)
        try:
            with process:
                out, err = self._heard(process)
        finally:
            self._running.discard(process)
            close_here(leash)
        if process.returncode in _NOT_FOUND:
            raise missing_compiler(f"{command[0]} cannot be started: {err.strip()}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _heard(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """Tell a compiler to start; what it printed until its end."""
        try:
            if self._is_over:
                raise CompileError("compiling was stopped")
            return process.communicate("go\n", timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            why = f"it ran for more than {TIMEOUT_S} s"
            raise CompileError("the C compiler did not finish", why=why) from error
        finally:
            _kill(process)


def _started(
    command: Sequence[str], folder: str, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str], int]:
    """A compiler, and the end of its leash that is held here."""
    with undivided():  # a child forked midway would hold its pipes open
        end, leash = os.pipe()
        keep_from_children(leash)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _WHEN_TOLD, "sh", *command],
                cwd=folder,
                env=environment,
                pass_fds=(end,),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                process_group=0,
            )
            with suppress(ProcessLookupError):  # somebody ended it
                end_with_pipe(end, -process.pid)
        except OSError as error:
            close_here(leash)
            raise _not_started(command[0], error) from error
        finally:
            os.close(end)
    return process, leash


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the group of a process that nobody has waited for yet, and wait for it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _not_started(program: str, error: OSError) -> CompilerMissingError | OSError:
    why = f"{program} cannot be started: {error.strerror}"
    if error.errno in _NO_ROOM:
        fix = "end other programs, or raise the limits of memory and processes (ulimit -v, -u)"
        return CompilerMissingError("the C compiler cannot be started", why=why, fix=fix)
    if isinstance(error, (FileNotFoundError, PermissionError)) or error.errno == errno.ENOEXEC:
        return missing_compiler(why)
    return error
