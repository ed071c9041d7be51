"""The folder of compiled artifacts: named by content, private, locked, pruned by size."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from circlet import __version__
from circlet.artifact.digest import DIGEST_BYTES, digest, file_hex, hasher
from circlet.artifact.file import Artifact, StrPath, open_artifact
from circlet.config import Config, temporary_cache_folder
from circlet.errors import ArtifactError, CacheError, FileError
from circlet.struct import Struct

if TYPE_CHECKING:
    import logging

_SUFFIX = ".circlet"
_INSTALLED = ("site-packages", "dist-packages")
_STALE_S = 3600
_SETTLED_S = 2.0
_PACKAGE = os.path.dirname(os.path.dirname(__file__))


class CachedArtifact(Struct):
    """An artifact, and whether it was there before."""

    artifact: Artifact
    hit: bool


def cache_key(*parts: bytes | str | memoryview) -> str:
    """A name that differs when any part, or the generator of code, differs."""
    key = hasher(generator_identity().encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        key.update(len(data).to_bytes(8, "little"))
        key.update(data)
    return key.hexdigest()


@lru_cache(maxsize=1)
def generator_identity() -> str:
    """The version of Circlet and the state of its sources, which an edit changes."""
    sources = "".join(_sources(_PACKAGE))
    return f"circlet {__version__} {digest(sources.encode()).hex()}"


def _sources(folder: str) -> Iterator[str]:
    """Name, size and time of each source file below a folder, in a fixed order.

    Of an installed package only the first: an installer replaces its files together.
    """
    if os.path.basename(os.path.dirname(folder)) in _INSTALLED:
        facts = os.stat(os.path.join(folder, "__init__.py"))
        yield f"{facts.st_ino}:{facts.st_ctime_ns}"
        return
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            yield from _sources(entry.path)
        elif entry.name.endswith((".py", ".c", ".h", ".json")):
            facts = entry.stat()
            yield f"{entry.path[len(folder) :]}:{facts.st_size}:{facts.st_mtime_ns};"


class Cache:
    """A checked folder of artifacts; `folder` is None where nothing can be kept."""

    def __init__(self, config: Config | None = None) -> None:
        config = config or Config.from_environment()
        self._limit_bytes = config.cache_bytes
        self.folder = usable_folder(config) if config.cache_bytes else None

    def load(self, key: str, build: Callable[[], bytes]) -> CachedArtifact:
        """The artifact of a key, built by `build` where it is missing or damaged.

        Of several processes and threads that ask at once, one builds and the others wait.
        """
        if self.folder is None:
            return CachedArtifact(open_artifact(build()), hit=False)
        path = os.path.join(self.folder, f"{key}{_SUFFIX}")
        found = _open_if_sound(path)
        if found is not None:
            return CachedArtifact(found, hit=True)
        with _locked(os.path.join(self.folder, f"{key}.lock")):
            found = _open_if_sound(path)
            if found is not None:
                return CachedArtifact(found, hit=True)
            return CachedArtifact(self._keep(path, build()), hit=False)

    def _keep(self, path: str, data: bytes) -> Artifact:
        from circlet.artifact.writer import write_file

        try:
            write_file(path, data)
        except FileError as error:
            _log().warning("the compiled model is not kept: %s", error.why)
            return open_artifact(data)
        artifact = open_artifact(path)
        self.prune(keep=path)
        return artifact

    def prune(self, keep: str = "") -> None:
        """Deletes what was unused for longest until the artifacts fit the size limit."""
        if self.folder is None:
            return
        _delete_stale(self.folder)
        entries = sorted(_entries(self.folder, _SUFFIX), key=lambda entry: entry[0])
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self._limit_bytes:
                return
            if path != keep:
                total -= size
                _delete(path)

    def file_digest(self, path: StrPath) -> str:
        """The hash of a file's bytes, remembered for as long as the file is not touched."""
        facts = os.stat(path)
        marks = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        name = digest(repr((os.path.abspath(path), marks)).encode()).hex()
        memo = os.path.join(self.folder, f"{name}.digest") if self.folder else ""
        if memo and (known := _read_digest(memo)):
            return known
        found = file_hex(path)
        if memo and time.time() - max(facts.st_mtime, facts.st_ctime) > _SETTLED_S:
            from circlet.artifact.writer import write_file

            with contextlib.suppress(FileError):
                write_file(memo, found.encode())
        return found


def usable_folder(config: Config) -> str | None:
    """The cache folder, made and checked; the temporary one where there is no writable home.

    Raises:
        CacheError: The folder belongs to someone else, or others may write to it.
    """
    folder = config.cache_folder()
    problem = _made(folder)
    if not problem:
        return folder
    other = temporary_cache_folder()
    if config.cache_is_chosen:
        _warn_of_other_folder(folder, problem, other)
    if not _made(other):
        return other
    _log().warning("no folder can hold the cache; compiled models are not kept")
    return None


@lru_cache(maxsize=8)
def _warn_of_other_folder(chosen: str, problem: str, other: str) -> None:
    _log().warning("%s cannot hold the cache (%s), %s does", chosen, problem, other)


def _made(folder: str) -> str:
    """Make a private folder that can be written, or say why there is none; raises as above."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        facts = os.lstat(folder)
    except FileExistsError:
        return "it is not a folder"
    except OSError as error:
        return error.strerror or str(error)
    _check_private(folder, facts)
    return "" if os.access(folder, os.W_OK | os.X_OK) else "it cannot be written"


def _check_private(folder: str, facts: os.stat_result) -> None:
    problem = ""
    if not stat.S_ISDIR(facts.st_mode):
        problem = "it is not a folder"
    elif facts.st_uid != os.getuid():
        problem = f"it belongs to user {facts.st_uid}, not to {os.getuid()}"
    elif facts.st_mode & 0o022:
        problem = f"others may write to it (mode {stat.S_IMODE(facts.st_mode):o})"
    if problem:
        raise CacheError(
            "the cache folder is not private, so code in it cannot be trusted",
            where=folder,
            why=problem,
            fix=f"chmod 700 {folder}, or set CIRCLET_CACHE_DIR to a folder of your own",
        )


def _open_if_sound(path: str) -> Artifact | None:
    """The artifact, marked as used now; None when it is missing, damaged or not ours."""
    try:
        facts = os.lstat(path)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            raise ArtifactError("a cached file is not private", where=path)
        artifact = open_artifact(path)
        for index in range(len(artifact.target_names)):
            artifact.code(index)
        os.utime(path)
    except (OSError, FileError):
        return None
    except ArtifactError as error:
        _log().warning("a cached artifact is built again: %s", error.why or error.what)
        return None
    return artifact


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds the lock of a key; who gets it after a wait must look for the result first."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        _log().info("no lock on %s: %s", path, error.strerror)
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        _delete(path)
        os.close(descriptor)


def _entries(folder: str, suffix: str) -> list[tuple[float, int, str]]:
    """Time of last use, size and path of the files with a suffix."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            facts = entry.stat(follow_symlinks=False)
            if entry.name.endswith(suffix):
                found.append((facts.st_mtime, facts.st_size, entry.path))
    return found


def _delete(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _delete_stale(folder: str) -> None:
    """Removes what interrupted writers left, and digests that nobody used for a month."""
    now = time.time()
    for suffix, age_s in ((".tmp", _STALE_S), (".digest", 30 * 24 * _STALE_S)):
        for used, _, path in _entries(folder, suffix):
            if now - used > age_s:
                _delete(path)


def _read_digest(memo: str) -> str:
    try:
        with open(memo, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if len(text) == DIGEST_BYTES * 2 else ""


def _log() -> logging.Logger:
    """The logger, imported here: a start that finds its artifact has nothing to say."""
    import logging

    return logging.getLogger("circlet.cache")
