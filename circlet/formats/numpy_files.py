"""Files of numpy arrays, whose headers are looked at before anything is unpacked."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from circlet.errors import CircletError, FileError, InputError
from circlet.formats.entry_names import NAMES_ENTRY, entry_names
from circlet.regular_files import open_regular

_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06")
_MOST_HEADER_BYTES = 10_000  # numpy's own limit


class Header(NamedTuple):
    """What the file of an array says of it."""

    dtype: np.dtype
    shape: tuple[int, ...]


def read_numpy(path: Path, check: Callable[[Header], None], name: str = "") -> np.ndarray:
    """The array of an .npy file, or that of a name, or the only one, of an .npz archive.

    `check` may refuse an array by its header, before memory is taken for its elements.

    Raises:
        FileError: A header is damaged.
        InputError: An archive holds several arrays, and none of the name.
    """
    with open_regular(path, "an input file") as file:
        is_archive = file.read(4) in _ARCHIVES
        file.seek(0)
        if not is_archive:
            check(_header(file, path))
            file.seek(0)
            return _elements(file)
        with zipfile.ZipFile(file) as archive:
            member = _picked(archive.namelist(), name, path)
            with archive.open(member) as entry:
                check(_header(entry, path))
            with archive.open(member) as entry:
                return _elements(entry)


def holds_several(path: Path) -> bool:
    """Whether a file is an .npz archive of more than one array."""
    damaged = suppress(OSError, CircletError, zipfile.BadZipFile)  # whoever reads it says so
    with damaged, open_regular(path, "an input file") as file, zipfile.ZipFile(file) as archive:
        return sum(name != NAMES_ENTRY for name in archive.namelist()) > 1
    return False


def _elements(file: IO[bytes]) -> np.ndarray:
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _picked(members: Sequence[str], name: str, path: Path) -> str:
    """The member that holds the array of a name, or the only one."""
    arrays = {m.removesuffix(".npy"): m for m in members if m != NAMES_ENTRY}
    names = list(arrays)
    for known in (name, *entry_names([name])):
        if known in arrays:
            return arrays[known]
    if len(names) == 1:
        return arrays[names[0]]
    raise InputError(
        "the .npz file does not say which array to use",
        where=str(path),
        why=f"it holds {names}",
        fix=f"name one array {name!r}",
    )


def _header(file: IO[bytes], path: Path) -> Header:
    """What stands in front of the elements of an array."""
    version = np.lib.format.read_magic(file)
    size = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    if size > _MOST_HEADER_BYTES:
        raise FileError(
            "an array file is damaged", where=str(path), why=f"a header of {size} bytes"
        )
    fields = ast.literal_eval(file.read(size).decode("latin1"))
    dtype = np.dtype(np.lib.format.descr_to_dtype(fields["descr"]))
    if dtype.hasobject:
        why = "it holds Python objects, which only allow_pickle would load"
        raise FileError("an array file cannot be read", where=str(path), why=why)
    return Header(dtype, tuple(fields["shape"]))
