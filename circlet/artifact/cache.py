"""The folder of compiled artifacts: marked, private, named by content, locked, pruned by size."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from circlet import __version__
from circlet.artifact.digest import DIGEST_BYTES, digest, hasher
from circlet.artifact.file import SUFFIX, Artifact, open_artifact
from circlet.artifact.folder import NoFolderError, PrivateFolder, entries
from circlet.config import Config, temporary_cache_folder
from circlet.errors import ArtifactError, CacheError, FileError
from circlet.forking import close_here, keep_from_children, undivided
from circlet.stored import Stored, StoredFile
from circlet.struct import Struct

if TYPE_CHECKING:
    import logging

TAG = "CACHEDIR.TAG"
"""Marks a folder whose files are the cache's, in the words of https://bford.info/cachedir/."""

_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# Compiled networks of Circlet.\n"
_OWN_FOLDER = "circlet-cache"
_LOCK, _MEMO = ".lock", ".memo"
_NAME_CHARACTERS = frozenset("0123456789abcdef")
_INSTALLED = ("site-packages", "dist-packages")
_STALE_S = 3600
_MONTH_S = 30 * 24 * 3600
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
    """The artifacts of a checked folder, and what is known of files.

    Args:
        config: Where the folder is and how large it may grow; else the environment's.

    Raises:
        CacheError: The folder is not private.

    Attributes:
        folder: None where nothing can be kept.
    """

    def __init__(self, config: Config | None = None) -> None:
        config = config or Config.from_environment()
        self._limit_bytes = config.cache_bytes
        self.folder = usable_folder(config) if config.cache_bytes else None

    def load(
        self,
        key: str,
        build: Callable[[], bytes],
        *,
        verify: str = "once",
        keeps: Callable[[], bool] = lambda: True,
    ) -> CachedArtifact:
        """The artifact of a key, built by `build` where it is missing or damaged.

        Of several processes and threads that ask at once, one builds and the others wait.

        Args:
            key: As `cache_key` makes it; what is built bears it as `key` in its metadata.
            build: Makes the bytes of the artifact.
            verify: "once" checks the hashes of weights where the file is new or was touched,
                "always" each time.
            keeps: Whether what was built may be kept; asked once it is built.
        """
        folder = self.folder
        if folder is None:
            return CachedArtifact(open_artifact(build()), hit=False)
        found = self._open_if_sound(folder, key, verify)
        if found is not None:
            return CachedArtifact(found, hit=True)
        if not folder.is_writable:
            return CachedArtifact(open_artifact(build()), hit=False)
        with _locked(folder, f"{key}{_LOCK}"):
            found = self._open_if_sound(folder, key, verify)
            if found is not None:
                return CachedArtifact(found, hit=True)
            data = build()
            artifact = self._keep(folder, key, data) if keeps() else open_artifact(data)
            return CachedArtifact(artifact, hit=False)

    def _keep(self, folder: PrivateFolder, key: str, data: bytes) -> Artifact:
        try:
            folder.write(f"{key}{SUFFIX}", data)
        except FileError as error:
            _log().warning("the compiled model is not kept: %s", error.why)
        else:
            self.prune(keep=f"{key}{SUFFIX}")
        return open_artifact(data)

    def _open_if_sound(self, folder: PrivateFolder, key: str, verify: str) -> Artifact | None:
        """The artifact, marked as used now; None when it is missing, damaged or not ours."""
        name = f"{key}{SUFFIX}"
        try:
            file = folder.open(name, "a cached artifact")
            artifact = open_artifact(file)
            if artifact.metadata.get("key") != key:
                raise ArtifactError("a cached artifact is of another model", where=name)
            self.verify(artifact, file, verify, key)
        except FileError as error:
            if folder.is_there(name):
                _log().warning("a cached artifact is built again: %s", error.why)
            return None
        except ArtifactError as error:
            _log().warning("a cached artifact is built again: %s", error.why or error.what)
            return None
        folder.touch(f"{key}{_MEMO}")
        return artifact

    def verify(self, artifact: Artifact, file: StoredFile, verify: str, key: str = "") -> None:
        """Read an artifact's code for this machine and see that all hashes of it fit.

        Where `verify` is "once", weights of a file that was not touched since are known to fit.

        Raises:
            ArtifactError, FileError: As `Artifact.select`.
        """
        name, known = key or _name_of(file), f"{file.marks} {artifact.digest}"
        if verify == "once" and self._recall(name) == known:
            artifact.check(check_constants=False)
            return
        artifact.check()
        self._remember(name, known, file)

    def prune(self, keep: str = "") -> None:
        """Deletes what was unused for longest until the artifacts fit the size limit."""
        folder = self.folder
        if folder is None or not folder.is_writable:
            return
        _delete_stale(folder)
        used = {name: when for when, _, name in entries(folder, _MEMO)}
        found = [
            (max(when, used.get(_memo_of(name), 0.0)), size, name)
            for when, size, name in self.artifacts()
        ]
        total = sum(size for _, size, _ in found)
        for _, size, name in sorted(found):
            if total <= self._limit_bytes:
                return
            if name != keep:
                total -= size
                folder.delete(name)
                folder.delete(_memo_of(name))

    def artifacts(self) -> list[tuple[float, int, str]]:
        """Time, size and name of each file that the cache keeps."""
        found = entries(self.folder, SUFFIX) if self.folder else ()
        return [entry for entry in found if _is_own(entry[2], SUFFIX)]

    def file_digest(self, file: Stored) -> str:
        """The hash of a file's bytes, remembered for as long as the file is not touched."""
        if not isinstance(file, StoredFile):
            return digest(file.data()).hex()
        name = _name_of(file)
        marks, _, known = self._recall(name).rpartition(" ")
        if marks == file.marks and len(known) == DIGEST_BYTES * 2:
            return known
        found = digest(file.data()).hex()
        self._remember(name, f"{file.marks} {found}", file)
        return found

    def recalled(self, what: str, file: Stored, find_out: Callable[[], str]) -> str:
        """What was found out of a file's bytes, whatever its name, as ASCII."""
        name, mark = cache_key(what, self.file_digest(file)), f"{what}:"
        known = self._recall(name)
        if known.startswith(mark):
            return known.removeprefix(mark)
        found = find_out()
        if self.folder is not None and self.folder.is_writable:
            with contextlib.suppress(FileError):
                self.folder.write(f"{name}{_MEMO}", f"{mark}{found}".encode())
        return found

    def _recall(self, name: str) -> str:
        if self.folder is None:
            return ""
        try:
            file = self.folder.open(f"{name}{_MEMO}", "what is known of a file")
            return str(file.data(), "ascii", "replace")
        except FileError:
            return ""

    def _remember(self, name: str, text: str, file: StoredFile) -> None:
        """Keep what was found out about a file, if a later change of it is sure to be seen."""
        if self.folder is not None and self.folder.is_writable and file.is_settled:
            with contextlib.suppress(FileError):
                self.folder.write(f"{name}{_MEMO}", text.encode())


def usable_folder(config: Config) -> PrivateFolder | None:
    """The cache folder, made and checked; the temporary one where there is no writable home.

    Of a folder that holds something else a folder in it serves: only what is marked as a cache is
    ever cleaned.

    Raises:
        CacheError: The folder is not private.
    """
    problem = ""
    if config.cache_dir:  # the temporary folder takes milliseconds to be found
        try:
            return _marked(config.cache_folder())
        except NoFolderError as error:
            problem = str(error)
    other = temporary_cache_folder()
    if problem and config.cache_is_chosen:
        _warn_of_other_folder(config.cache_folder(), problem, other)
    try:
        return _marked(other)
    except (NoFolderError, CacheError) as error:
        _log().warning("no folder can hold the cache (%s); compiled models are not kept", error)
    return None


def _marked(path: str) -> PrivateFolder:
    """A folder that is marked as a cache; one that can only be read must hold a cache already."""
    folder = PrivateFolder(path)
    if not folder.is_there(TAG):
        others = [name for name in folder.names() if not name.startswith(f".{TAG}")]
        if others and not folder.is_there(TAG):  # another process may have marked it meanwhile
            return _marked(os.path.join(path, _OWN_FOLDER))
        if not folder.is_writable:
            raise NoFolderError("it cannot be written")
        try:
            folder.write(TAG, _TAG_TEXT)
        except FileError as error:
            raise NoFolderError(error.why) from error
    return folder


@lru_cache(maxsize=8)
def _warn_of_other_folder(chosen: str, problem: str, other: str) -> None:
    _log().warning("%s cannot hold the cache (%s), %s does", chosen, problem, other)


def _name_of(file: StoredFile) -> str:
    """What is known of a file is kept under a name made of its path."""
    path = file.name
    with contextlib.suppress(OSError):  # of a working folder that is gone
        path = os.path.abspath(path)
    return digest(path.encode("utf-8", "surrogateescape")).hex()


def _memo_of(name: str) -> str:
    return name.removesuffix(SUFFIX) + _MEMO


def _is_own(name: str, suffix: str) -> bool:
    """Whether a file has a name that only the cache gives."""
    stem = name.removesuffix(suffix)
    return len(stem) == DIGEST_BYTES * 2 and _NAME_CHARACTERS.issuperset(stem)


@contextlib.contextmanager
def _locked(folder: PrivateFolder, name: str) -> Iterator[None]:
    """Holds the lock of a key; who gets it after a wait must look for the result first."""
    import fcntl

    try:
        with undivided():
            descriptor = folder.lock_file(name)
            keep_from_children(descriptor)
    except OSError as error:
        _log().info("no lock on %s: %s", name, error.strerror)
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        folder.delete(name)
        close_here(descriptor)


def _delete_stale(folder: PrivateFolder) -> None:
    """Removes what interrupted writers left, and memories that nobody used for a month."""
    now = time.time()
    for suffix, age_s in ((".tmp", _STALE_S), (_LOCK, _MONTH_S), (_MEMO, _MONTH_S)):
        for used, _, name in entries(folder, suffix):
            stem = name.lstrip(".").partition(".")[0] if suffix == ".tmp" else name
            if now - used > age_s and _is_own(stem, suffix):
                folder.delete(name)


def _log() -> logging.Logger:
    """The logger, imported here: a start that finds its artifact has nothing to say."""
    import logging

    return logging.getLogger("circlet.cache")
