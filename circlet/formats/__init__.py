"""Model files: .tflite and .circle to `circlet.ir.Model` and back."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from circlet.errors import CircletError, FileError
from circlet.formats.read_model import read_model
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS, Limits

__all__ = ["load"]

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


def load(source: Source, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model in a file or in bytes; its constants stay views into either.

    Raises:
        FileError: The path cannot be read.
        FormatError, GraphError, LimitError: The contents are not a model that can be used.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return read_model(memoryview(source).toreadonly().cast("B"), limits)
    path = Path(source)
    data = _map(path)
    try:
        model = read_model(data, limits)
    except CircletError as error:
        raise _located(error, path) from None
    model.source_path = str(path)
    return model


def _map(path: Path) -> memoryview:
    """The file's bytes, memory-mapped."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError("the model file cannot be read", where=str(path), why=reason) from None


def _located(error: CircletError, path: Path) -> CircletError:
    """The same error with the file's name in front of its place."""
    place = f"{path}: {error.where}" if error.where else str(path)
    return type(error)(error.what, where=place, why=error.why, fix=error.fix)
