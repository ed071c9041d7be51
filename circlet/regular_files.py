"""Files that paths of users name: read only where they are files, replaced only where they are."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from circlet.errors import FileError

StrPath = str | os.PathLike[str]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: StrPath, what: str) -> BinaryIO:
    """A file, open for reading its bytes; `what` names it in errors.

    Raises:
        FileError: It cannot be opened, or is none: a pipe would keep a reader waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise FileError.unreadable(what, path, error) from error
    try:
        check_regular(os.fstat(descriptor).st_mode, path, what)
    except FileError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def check_regular(mode: int, path: StrPath, what: str) -> None:
    """FileError where what was opened for reading is no file."""
    kind = _kind(mode)
    if kind:
        why, fix = f"it is {kind}, not a file", "give the path of a file"
        raise FileError(f"{what} cannot be read", where=str(path), why=why, fix=fix)


def check_replaceable(path: StrPath, what: str) -> None:
    """See that a path names a file, or nothing yet.

    Raises:
        FileError: It names something that a new file would take the place of, or no place.
    """
    fix = "name a file that may be written over, or a new one"
    try:
        kind = _kind(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{what} cannot be written", where=str(path), why=why, fix=fix) from error
    if kind:
        why = f"it is {kind}, not a file"
        raise FileError(f"{what} cannot be written", where=str(path), why=why, fix=fix)


def _kind(mode: int) -> str:
    """What is no file, in words; "" for a file."""
    if stat.S_ISREG(mode):
        return ""
    return next((name for holds, name in _KINDS if holds(mode)), "a device")
