"""Files and bytes that are read once, into private memory, and then never looked at again.

No file is ever mapped: whoever shortens, overwrites or exchanges a file that is in use changes
nothing of what was read from it, and cannot end the process by a bus error. On the path of every
cached start, so it imports little.
"""

from __future__ import annotations

import mmap
import os
import time

from circlet.errors import FileError, check_type
from circlet.regular_files import Bytes as Bytes
from circlet.regular_files import StrPath as StrPath
from circlet.regular_files import open_descriptor

SETTLED_S = 2.0
"""Some file systems date changes to two seconds: younger files may change and look the same."""

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)


class StoredBytes:
    """Bytes of the caller; those that the caller could change are copied.

    Attributes:
        beside: The path that they stand for, where they name files beside it; None where they
            stand for none.
    """

    marks = ""

    def __init__(self, data: Bytes, name: str = "bytes", beside: str | None = None) -> None:
        self.name, self.beside = name, beside
        self._data = memoryview(data if isinstance(data, bytes) else bytes(data))
        self.size = len(self._data)

    def read(self, start: int, size: int) -> memoryview:
        """Some of the bytes, in pages of their own; fewer where they end before."""
        found = self._data[start : start + size]
        room = _pages(len(found))
        room[:] = found
        return room.toreadonly()

    def data(self) -> memoryview:
        """A view of all bytes."""
        return self._data


class StoredFile:
    """A regular file, open for reading.

    Args:
        path: Where it is; relative to `folder` where that is given.
        what: What the file is to the user, for errors.
        folder: Descriptor of a folder; then the file must not be a link.

    Raises:
        FileError: It cannot be opened, or is no regular file.

    Attributes:
        name: The path as it was given.
        size: Bytes at the time when it was opened.
        facts: What `fstat` said then.
    """

    def __init__(
        self, path: StrPath, what: str = "the model file", folder: int | None = None
    ) -> None:
        self.name, self._what = os.fspath(path), what
        self._data: memoryview | None = None
        self._descriptor = -1
        self._descriptor = open_descriptor(path, what, folder)
        self.facts = os.fstat(self._descriptor)
        self.size = self.facts.st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self._close()

    @property
    def marks(self) -> str:
        """What changes when the file does, as a text."""
        return _marks(self.facts)

    @property
    def is_settled(self) -> bool:
        """Whether any later change will show in the marks."""
        changed = max(self.facts.st_mtime, self.facts.st_ctime)
        return time.time() - changed - SETTLED_S >= 0

    def read(self, start: int, size: int) -> memoryview:
        """Some of the bytes, in pages of their own; fewer where they end before.

        Raises:
            FileError: The file was changed since it was opened, or the disk fails.
        """
        size = max(0, min(size, self.size - start))
        room = _pages(size)
        done = 0
        try:
            while done < size:
                count = os.preadv(self._descriptor, [room[done:]], start + done)
                if not count:
                    break
                done += count
            now = os.fstat(self._descriptor)
        except OSError as error:
            raise FileError.unreadable(self._what, self.name, error) from error
        if done < size or _written(now) != _written(self.facts):
            raise FileError(
                f"{self._what} changed while it was read",
                where=self.name,
                why=f"it had {self.size} bytes and has {now.st_size}, or was written to",
                fix="write files under another name and rename them; then open them again",
            )
        return room.toreadonly()

    def data(self) -> memoryview:
        """All bytes, read the first time; raises as `read`."""
        if self._data is None:
            self._data = self.read(0, self.size)
            self._close()
        return self._data

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


Stored = StoredFile | StoredBytes


def stored(source: StrPath | Bytes | Stored, what: str = "the model file") -> Stored:
    """What a path or bytes hold, to be read once.

    Raises:
        InputError: It is neither.
        FileError: As `StoredFile`.
    """
    if isinstance(source, (StoredFile, StoredBytes)):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return StoredBytes(source)
    check_type(source, str | os.PathLike, "source", "the path or the bytes of a network")
    return StoredFile(source, what)


def _written(facts: os.stat_result) -> tuple[int, int]:
    """What changes when a file is written to, but not when another takes its name."""
    return facts.st_size, facts.st_mtime_ns


def _pages(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, max(size, 1), flags=_PRIVATE))[:size]


def _marks(facts: os.stat_result) -> str:
    kept = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    return " ".join(map(str, kept))
