"""What `circlet doctor` finds out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from circlet.apart import Apart, LostError, Tell
from circlet.artifact.cache import Cache
from circlet.artifact.file import HEADER, is_of_other_version, open_artifact
from circlet.artifact.folder import PrivateFolder
from circlet.backends.registry import backend_names, find_backend
from circlet.errors import ArtifactError, BackendError, CacheError, CircletError, FileError
from circlet.options import DEFAULT_BACKENDS
from circlet.runtime.session import Session
from circlet.sample import Sample
from circlet.stored import StoredFile
from circlet.target.targets import native_target
from circlet.target.threads import default_threads
from circlet.words import counted

_ROOM_BYTES = 4 << 20
_BACKEND_S = 300.0


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    subject: str
    ok: bool
    text: str


def diagnose(backends: Sequence[str] | None = None) -> list[Finding]:
    """Check everything; of backends all or those named. An error is a finding that is not ok."""
    checks: dict[str, Callable[[], str]] = {"machine": _machine, "cache": _cache}
    with Apart() as apart:
        checks |= {name: partial(_apart, apart, name) for name in backends or backend_names()}
        return [_checked(subject, check) for subject, check in checks.items()]


def _checked(subject: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, check())
    except CircletError as error:
        return Finding(subject, False, str(error))


def _machine() -> str:
    return f"{native_target()}, {counted(default_threads(), 'thread')} by default"


def _cache() -> str:
    cache = Cache()
    folder = cache.folder
    if folder is None:
        return "switched off, or no folder can hold it; models are compiled at each start"
    sizes: list[int] = []
    damaged: list[str] = []
    others = 0  # an upgrade leaves them behind, and pruning takes them in time
    for _, size, name in sorted(cache.artifacts()):
        with suppress(FileError):  # another process may prune the cache meanwhile
            file = folder.open(name, "a cached artifact")
            sizes.append(size)
            if is_of_other_version(file.read(0, HEADER.size)):
                others += 1
            elif not _is_sound(file):
                damaged.append(name)
    if damaged:
        raise ArtifactError(
            "cached artifacts are damaged",
            where=folder.path,
            why=", ".join(damaged),
            fix="delete them",
        )
    _check_room(folder)
    count = counted(len(sizes), "artifact")
    if others:
        count += f" ({others} of other versions)"
    return f"{folder.path}, {count}, {sum(sizes) / 1e6:.1f} MB, every hash verified"


def _check_room(folder: PrivateFolder) -> None:
    """See that a network of ordinary size could be kept."""
    probe = f"room.{os.getpid()}"
    try:
        folder.write(probe, bytes(_ROOM_BYTES))
    except FileError as error:
        fix = "free some space, or set CIRCLET_CACHE_DIR"
        what = "the cache cannot be written"
        raise CacheError(what, where=folder.path, why=error.why, fix=fix) from error
    folder.delete(probe)


def _is_sound(file: StoredFile) -> bool:
    try:
        open_artifact(file).verify_full()
    except ArtifactError:
        return False
    return True


def _apart(apart: Apart, name: str) -> str:
    """What a backend is found to do, in a process that it may end."""
    try:
        found: str = apart.call(_backend, name, limit_s=_BACKEND_S)
    except LostError as error:
        raise error.coded("it ended the process that tried it", name) from error
    return found


def _backend(tell: Tell, name: str) -> str:
    """Run the embedded int8 sample on all its pictures; exact answers are said so.

    The last default backend runs what a backend of some operators alone does not take.
    """
    facts = find_backend(name).diagnose()
    session = Session(Sample().model_path, backends=(name, DEFAULT_BACKENDS[-1]), threads=1)
    if name not in {row["backend"] for row in session.placement}:
        return f"{facts}; it takes no operator of the embedded sample"
    wanted = Sample.int8_scores()
    for picture, scores in enumerate(wanted):
        (got,) = session.run([Sample(picture=picture).image()]).values()
        if not np.array_equal(got[0], scores):
            raise BackendError("the embedded sample gives a wrong answer", where=str(picture))
    return f"{facts}; the embedded sample is exact on {counted(len(wanted), 'picture')}"
