"""A private folder, held by its descriptor: whoever exchanges a path changes nothing of it.

Code is loaded out of such a folder, so everything on the way to it must belong to this user or to
the system: in a folder that others may write to, they could put one of their own in its place.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from circlet.errors import CacheError, FileError
from circlet.regular_files import replace_file, temporary_name, unwritable
from circlet.stored import StoredFile

_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
_WAY = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW  # may be passed, not listed
_GROUP, _OTHERS = stat.S_IWGRP, stat.S_IWOTH
_EVERY_USER = "0 0 4294967295"


class NoFolderError(Exception):
    """There is no such folder, and none can be made; the message is the reason."""


class PrivateFolder:
    """A folder that only this user may write to.

    Args:
        path: Where it is; made, with mode 0700, where there is nothing.

    Raises:
        CacheError: It, or a folder on the way to it, is not private; the reason is told.
        NoFolderError: It cannot be made or opened.

    Attributes:
        path: Where it was found.
        is_writable: Whether files can be added.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        try:
            head, name = os.path.split(os.path.abspath(path))
            self.path = os.path.join(os.path.realpath(head), name)
        except (OSError, ValueError) as error:  # such as a working folder that is gone
            raise NoFolderError(str(error)) from error
        if os.path.islink(self.path):
            raise _not_private(self.path, "it is a link, not a folder")
        try:
            _make(self.path)
            self._descriptor = _descend(self.path)
        except OSError as error:
            raise NoFolderError(_reason(error)) from error
        self.is_writable = os.access(".", os.W_OK | os.X_OK, dir_fd=self._descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def open(self, name: str, what: str) -> StoredFile:
        """A file of the folder.

        Raises:
            FileError: It is missing, is no regular file, or others own it or may write to it.
        """
        file = StoredFile(name, what, self._descriptor)
        problem = _problem_of_owner(file.facts)
        if problem or file.facts.st_mode & (_GROUP | _OTHERS):
            why = problem or f"others may write to it (mode {stat.S_IMODE(file.facts.st_mode):o})"
            raise FileError(f"{what} is not private", where=os.path.join(self.path, name), why=why)
        return file

    def write(self, name: str, data: bytes) -> None:
        """Have a file hold exactly these bytes, or leave it as it was.

        Raises:
            FileError: The folder cannot be written, or the disk is full.
        """
        try:
            replace_file(temporary_name(name), name, data, 0o600, self._descriptor)
        except OSError as error:
            raise unwritable("a file", os.path.join(self.path, name), error) from error

    def delete(self, name: str) -> None:
        """Remove a file, if it is there and may be removed."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)

    def touch(self, name: str) -> None:
        """Mark a file as used now, where that may be written."""
        with contextlib.suppress(OSError):
            os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def lock_file(self, name: str) -> int:
        """The descriptor of a file to be locked, made where it is missing; OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self._descriptor)

    def is_there(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return os.access(name, os.F_OK, dir_fd=self._descriptor, follow_symlinks=False)

    def names(self) -> list[str]:
        """What is in the folder."""
        return os.listdir(self._descriptor)

    def facts(self, name: str) -> os.stat_result | None:
        """What the system says of a regular file; None where there is none."""
        try:
            facts = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return None
        return facts if stat.S_ISREG(facts.st_mode) else None


def _make(path: str) -> None:
    if not os.path.lexists(path):
        os.makedirs(path, 0o700, exist_ok=True)


def _descend(path: str) -> int:
    """The descriptor of a folder that was reached step by step, each one checked."""
    descriptor = os.open("/", _WAY)
    try:
        reached, steps = "/", path.split("/")[1:]
        _check_way(reached, os.fstat(descriptor))
        for number, step in enumerate(steps):
            reached = os.path.join(reached, step)
            is_last = number == len(steps) - 1
            further = os.open(step, _FOLDER if is_last else _WAY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = further
            check = _check_private if is_last else _check_way
            check(reached, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_private(path: str, facts: os.stat_result) -> None:
    problem = _problem_of_owner(facts)
    if not problem and facts.st_mode & (_GROUP | _OTHERS):
        problem = f"others may write to it (mode {stat.S_IMODE(facts.st_mode):o})"
    if problem:
        raise _not_private(path, problem)


def _not_private(path: str, why: str) -> CacheError:
    return CacheError(
        "the cache folder is not private, so code in it cannot be trusted",
        where=path,
        why=why,
        fix=f"chmod 700 {path}, or set CIRCLET_CACHE_DIR to a folder of your own",
    )


def _check_way(path: str, facts: os.stat_result) -> None:
    """See that nobody else can exchange what is in a folder on the way."""
    problem = ""
    if facts.st_uid and _problem_of_owner(facts) and not _is_of_system(facts):
        problem = f"{path} belongs to user {facts.st_uid}, who can put another folder there"
    elif not facts.st_mode & stat.S_ISVTX and _is_shared(facts):
        mode = stat.S_IMODE(facts.st_mode)
        problem = f"others may write to {path} (mode {mode:o}) and put another folder there"
    if problem:
        raise CacheError(
            "the way to the cache folder is not private, so code in it cannot be trusted",
            where=path,
            why=problem,
            fix="set CIRCLET_CACHE_DIR to a folder that only you and the system can reach by "
            f"folders of your own, or chmod go-w {path}",
        )


def _problem_of_owner(facts: os.stat_result) -> str:
    if facts.st_uid == os.getuid():
        return ""
    return f"it belongs to user {facts.st_uid}, not to {os.getuid()}"


def _is_of_system(facts: os.stat_result) -> bool:
    """Whether a folder is root's, seen from a container that has no name for root."""
    with contextlib.suppress(OSError), open("/proc/self/uid_map") as users:
        is_mapped = " ".join(users.readline().split()) != _EVERY_USER
        with open("/proc/sys/kernel/overflowuid") as unknown:
            return is_mapped and facts.st_uid == int(unknown.read())
    return False


def _is_shared(facts: os.stat_result) -> bool:
    if facts.st_mode & _OTHERS:
        return True
    return bool(facts.st_mode & _GROUP) and not _is_own_group(facts.st_gid)


def _is_own_group(group: int) -> bool:
    """Whether a group is the one that many systems give each user, with nobody else in it."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (found.gr_gid, found.gr_name) == (user.pw_gid, user.pw_name) and set(found.gr_mem) <= {
        user.pw_name
    }


def _reason(error: OSError) -> str:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "it is not a folder"
    return error.strerror or str(error)


def entries(folder: PrivateFolder, suffix: str) -> Iterator[tuple[float, int, str]]:
    """Time of the last change, size and name of the files with a suffix."""
    for name in folder.names():
        facts = folder.facts(name) if name.endswith(suffix) else None
        if facts is not None:
            yield facts.st_mtime, facts.st_size, name
