"""Model files by their paths or bytes: load, save, and look at what is stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from circlet.errors import (
    CircletError,
    FileError,
    FormatError,
    InputError,
    UnsupportedOpsError,
    check_type,
)
from circlet.formats.flatbuffer import Reader
from circlet.formats.origin_tables import says_more
from circlet.formats.read_model import open_tables, unknown_file
from circlet.formats.registry import (
    Format,
    all_formats,
    format_named,
    format_of,
    format_of_suffix,
    written_format,
)
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.regular_files import write_file
from circlet.stored import Bytes, Stored, StoredBytes, StrPath, stored

# The format that can say whatever a model can.
WHOLE = "text"
Source = StrPath | Bytes | Stored


def load(source: Source, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model in a file or in bytes, read once; its constants are views into a private copy.

    Raises:
        FileError: The path cannot be read.
        FormatError, GraphError, LimitError: The contents are not a model that can be used.
    """
    check_type(limits, Limits, "limits", "a circlet.limits.Limits")
    file = stored(source)
    if isinstance(file, StoredBytes):
        beside = Path(file.beside) if file.beside else None
        return _read(file.data(), limits, path=beside)
    path = Path(file.name)
    limits.check_file(file.size, str(path))
    with located(path):
        model = _read(file.data(), limits, path=path)
    model.source_path = str(path)
    return model


def open_reader(path: Path, limits: Limits = DEFAULT_LIMITS) -> Reader:
    """The tables of a model file, for looking at what is stored.

    Raises:
        FileError: The path cannot be read.
        FormatError, LimitError: It is no .tflite or .circle file.
    """
    file = stored(path)
    limits.check_file(file.size, str(path))
    with located(path):
        return open_tables(file.data(), limits)


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Put a file's name in front of the place of every error of the block."""
    try:
        yield
    except FileError:
        raise
    except CircletError as error:
        raise _located(error, path) from None


def dumps(model: Model, format: str | None = None, *, origins: bool | None = None) -> bytes:
    """The model as the bytes of a file.

    Args:
        format: The name of a format that can be written, such as "tflite" or "circle"; the one it
            was read from when None.
        origins: Whether to store which source operators each operator descends from; None means
            always where the format is our own or ONE's, and in .tflite files where it is not
            what the file says without: where operators were rewritten, or have names of their own.
    """
    return bytes(_encode(model, format, origins))


def save(
    model: Model,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    origins: bool | None = None,
) -> None:
    """Write the model to a file, whole or not at all.

    `format` is that of the file name's ending when None; the rest is as for `dumps`.

    Raises:
        InputError: No format has this ending, or this name.
    """
    check_type(path, str | os.PathLike, "path", "the path of the file to write")
    target = Path(path)
    data = _encode(model, format or written_format(target).name, origins)
    write_file(target, data, 0o666, "the model file")


def dumps_whole(model: Model) -> bytes:
    """The model, origins included, in the first format that can say all of it."""
    for name in ("circle", "tflite"):
        with suppress(FormatError):
            return dumps(model, name, origins=True)
    return dumps(model, WHOLE)


def load_whole(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model that `dumps_whole` stored; raises as `load`."""
    held = memoryview(data)
    return _read(held, limits, format_named(WHOLE) if format_of(held) is None else None)


def _encode(model: Model, format: str | None, origins: bool | None) -> bytes | bytearray:
    check_type(model, Model, "model", "a network that circlet.load has read")
    wanted = format or model.source_format
    known = format_named(wanted)
    if known is None or known.write is None:
        names = ", ".join(f.name for f in all_formats() if f.write is not None)
        raise InputError(
            "this file format cannot be written",
            where=wanted or "(none given)",
            fix=f"choose one of {names}",
        )
    if origins is None:
        origins = known.stores_origins or says_more(model.graphs)
    return known.write(model, origins)


def _read(
    data: memoryview, limits: Limits, known: Format | None = None, path: Path | None = None
) -> Model:
    """The model of a format, or by the kind of file that the bytes are."""
    limits.check_file(len(data))
    known = known or format_of(data)
    named = format_of_suffix(path.suffix) if path is not None else None
    if named is not None and named.read_beside is not None and known is not named:
        raise FormatError(
            f"the file is no {path.suffix} file" if path else "",
            why=f"it is a .{known.name} file by another name" if known else "its start is another",
        )
    if known is None:
        raise unknown_file(data)
    if path is not None and known.read_beside is not None:
        model = known.read_beside(data, limits, path.parent)
    else:
        model = known.read(data, limits)
    model.source_format = model.source_format or known.name
    model.source_bytes = len(data)
    return model


def _located(error: CircletError, path: Path) -> CircletError:
    """The same error with the file's name in front of its place."""
    place = f"{path}: {error.where}" if error.where else str(path)
    if isinstance(error, UnsupportedOpsError):
        return UnsupportedOpsError(error.entries, where=place, fix=error.fix)
    return type(error)(error.what, where=place, why=error.reasons, fix=error.fix)
