"""Files that paths of users name: read only where they are files, replaced only where they are."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import BinaryIO

from circlet.errors import FileError

StrPath = str | os.PathLike[str]
Bytes = bytes | bytearray | memoryview

# Opening a FIFO must not wait for a writer.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
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
    return os.fdopen(open_descriptor(path, what), "rb")


def open_descriptor(path: StrPath, what: str, folder: int | None = None) -> int:
    """As `open_regular`; in the open folder where one is given, and then through no link."""
    links = 0 if folder is None else os.O_NOFOLLOW
    try:
        descriptor = os.open(path, _READ | links, dir_fd=folder)
    except (OSError, ValueError) as error:
        raise FileError.unreadable(what, path, error) from error
    kind = _kind(os.fstat(descriptor).st_mode)
    if kind:
        os.close(descriptor)
        why, fix = f"it is {kind}, not a file", "give the path of a file"
        raise FileError(f"{what} cannot be read", where=str(path), why=why, fix=fix)
    return descriptor


def write_file(path: StrPath, data: Bytes, mode: int = 0o600, what: str = "a file") -> None:
    """Have a file hold exactly these bytes, or leave it as it was; `what` names it in errors.

    Raises:
        FileError: The folder cannot be written, or the disk is full; the cause is an `OSError`.
    """
    check_replaceable(path, what)
    head, name = os.path.split(path)
    try:
        replace_file(os.path.join(head, temporary_name(name)), path, data, mode)
    except OSError as error:
        raise unwritable(what, path, error) from error


def replace_file(
    temporary: StrPath, path: StrPath, data: Bytes, mode: int, folder: int | None = None
) -> None:
    """Write a new file, then give it the name of the one that it replaces.

    Both are names in the open folder where one is given. Raises OSError; however it ends,
    no other file is left.
    """
    try:
        with os.fdopen(os.open(temporary, _NEW, mode, dir_fd=folder), "wb") as file:
            file.write(data)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def temporary_name(name: str) -> str:
    """A name beside a file, for what is to take its place."""
    return f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"


def unwritable(what: str, path: StrPath, error: OSError) -> FileError:
    """The error of a file that cannot be written."""
    return FileError(
        f"{what} cannot be written",
        where=str(path),
        why=error.strerror or str(error),
        fix="check the folder, its permissions and the free space",
    )


def check_replaceable(path: StrPath, what: str) -> None:
    """See that a path names a file, or nothing yet.

    Raises:
        FileError: It names something that a new file would take the place of, or no place.
    """
    fix = "name a file that may be written over, or a new one"
    try:
        kind = _kind(os.stat(path).st_mode)
    except FileNotFoundError as error:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise unwritable(what, path, error) from error
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
