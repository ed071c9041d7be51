"""Temporary folders of this process, which the next one removes where this one was killed.

They lie in one private folder of the user. Each is locked for as long as its process lives, and an
unlocked one is nobody's; nothing else is ever removed.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache

from circlet.config import temporary_folder
from circlet.forking import close_here, keep_from_children, undivided

_LOCKED = "work-"
_UNLOCKED = "new-"  # for the moment between making and locking


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A new private folder for the block.

    Raises:
        OSError: There is no room or no permission for it.
    """
    folder, lock = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        close_here(lock)


def folder_of_process() -> str:
    """A private folder that lasts as long as this process; a forked child has its own."""
    return _folder_of(os.getpid())


@lru_cache(maxsize=1)
def _folder_of(process: int) -> str:
    folder, _ = _made()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _made() -> tuple[str, int]:
    """A new folder, and the descriptor whose lock says that it is in use."""
    with undivided():
        home = _home()
        if home is None:
            folder = tempfile.mkdtemp(prefix="circlet-", dir=temporary_folder())
            return folder, _locked(folder)
        sweep(home)
        made = tempfile.mkdtemp(prefix=_UNLOCKED, dir=home)
        lock = _locked(made)
        folder = os.path.join(home, f"{_LOCKED}{os.path.basename(made)[len(_UNLOCKED) :]}")
        os.rename(made, folder)
        return folder, lock


def _home() -> str | None:
    """The user's folder of such folders; None where somebody else took its name."""
    home = os.path.join(temporary_folder(), f"circlet-work-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(home, 0o700)
    facts = os.lstat(home)
    private = facts.st_uid == os.getuid() and facts.st_mode & 0o170077 == 0o040000
    return home if private else None


def _locked(folder: str) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    keep_from_children(descriptor)
    with suppress(OSError):  # a file system without locks: nobody gets one, so nobody removes
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def sweep(home: str) -> None:
    """Remove the folders of processes that are gone."""
    with suppress(OSError), os.scandir(home) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_LOCKED)]
        for folder in left:
            _remove_if_left(folder)


def _remove_if_left(folder: str) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
