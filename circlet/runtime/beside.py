"""The files beside a model that hold some of its constants, for the cache's key.

Which these are is found out once for each model; on the path of cached starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circlet.errors import CircletError, FileError
from circlet.stored import Stored, StoredFile

if TYPE_CHECKING:
    from circlet.artifact.cache import Cache

_WHOLE = (".tflite", ".circle")


def digests_beside(file: Stored, cache: Cache) -> tuple[tuple[str, str], ...] | None:
    """Name and hash of each such file; None where one cannot be read: opening it says why."""
    path = file.name if isinstance(file, StoredFile) else file.beside
    if not path or path.lower().endswith(_WHOLE):
        return ()
    names = cache.recalled("names beside", file, lambda: _names(file))
    if not names:
        return ()
    try:
        return tuple((name, _digest(path, name, cache)) for name in map(_plain, names.split()))
    except FileError:
        return None


def _digest(path: str, name: str, cache: Cache) -> str:
    from pathlib import Path

    from circlet.formats.onnx.external import external_path

    place = external_path(Path(path).parent, name)
    if place is None:
        raise FileError("external data lies outside of the model's folder", where=name)
    return cache.file_digest(StoredFile(str(place), "the external data"))


def _names(file: Stored) -> str:
    """Names as ASCII; none of what is no .onnx file, or a damaged one."""
    from circlet.formats.onnx.external import external_names

    try:
        return " ".join(name.encode().hex() for name in external_names(file.data()))
    except CircletError:
        return ""


def _plain(coded: str) -> str:
    return bytes.fromhex(coded).decode()
