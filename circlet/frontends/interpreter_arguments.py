"""What an interpreter is given, checked as LiteRT checks it and refused in its words."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from circlet.errors import CircletError, FileError, FormatError, InputError
from circlet.formats import load
from circlet.frontends.builtin_errors import also, raised_as
from circlet.ir import Model, Tensor
from circlet.stored import Stored, stored

_MOST_BYTES = 1 << 63


def check_threads(count: object) -> None:
    """ValueError unless it is None or a whole number of at least 1."""
    if count is None:
        return
    if not isinstance(count, int):
        error = InputError.mistyped("num_threads", count, "1 or more, as an int")
        raise also(error, ValueError, "type of num_threads should be int")
    if count < 1:
        error = InputError("num_threads is not a count", where=str(count), fix="give 1 or more")
        raise also(error, ValueError, "num_threads should >= 1")


def check_delegates(delegates: Sequence[object] | None) -> None:
    """ValueError unless it is None or empty."""
    if not delegates:
        return
    error = InputError(
        "LiteRT's delegates cannot be used",
        where="experimental_delegates",
        why="they run inside LiteRT's interpreter",
        fix="leave them out: Circlet compiles the network for this CPU",
    )
    raise also(error, ValueError)


def opened_model(
    path: str | os.PathLike[str] | None, content: bytes | None
) -> tuple[Stored, Model]:
    """The file or bytes that are given, and the model in them.

    Raises:
        TypeError: They are something else.
        ValueError: Neither or both are given, or they cannot be read.
    """
    source = _source(path, content)
    try:
        file = stored(source)
        return file, load(file)
    except CircletError as error:
        raise also(error, ValueError, _why_unread(error, source)) from error.__cause__


def _source(
    path: str | os.PathLike[str] | None, content: bytes | None
) -> str | os.PathLike[str] | bytes:
    if path and content:
        error = InputError("a model is given twice", fix="give one of them")
        raise also(error, ValueError, "Can't both provide `model_path` and `model_content`")
    if not path and not content:
        error = InputError("no model is given", fix="give one of them")
        raise also(error, ValueError, "`model_path` or `model_content` must be specified.")
    if path:
        if not isinstance(path, str | bytes | os.PathLike):
            raise also(InputError.mistyped("model_path", path, "a path"), TypeError)
        return os.fsdecode(path)
    if not isinstance(content, bytes | bytearray | memoryview):
        error = InputError.mistyped("model_content", content, "the bytes of a network")
        raise also(error, TypeError)
    return bytes(content)


def _why_unread(error: CircletError, source: object) -> str:
    """LiteRT's sentence for a file that cannot be read, or holds something else."""
    if isinstance(error, FileError):
        return f"Could not open '{source}'."
    if isinstance(error, FormatError):
        return "The model is not a valid Flatbuffer buffer"
    return ""


def sizes(given: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """The sizes of a shape, as LiteRT reads them: fractions are cut off.

    Raises:
        TypeError, ValueError, OverflowError: As numpy, or there is not one row of them.
    """
    try:
        shape = np.array(given, np.int32)
    except (TypeError, ValueError, OverflowError) as error:
        coded = InputError.mistyped("tensor_size", given, "one size per dimension")
        raise also(coded, type(error), str(error)) from error
    if shape.ndim != 1:
        coded = InputError("a shape is not a row of sizes", where="tensor_size", why=repr(given))
        raise also(coded, ValueError, f"Shape should be 1D instead of {shape.ndim}.")
    return tuple(shape.tolist())


def check_sizes(
    tensor: Tensor, index: int, now: tuple[int, ...], wanted: tuple[int, ...], *, strict: bool
) -> None:
    """RuntimeError for sizes that an input can never have.

    Args:
        tensor: The input.
        index: The file's index of it.
        now: Its sizes at present.
        wanted: Its sizes to be.
        strict: Whether sizes that the file states must stay.
    """
    with raised_as(RuntimeError):
        _check_rank(tensor, now, wanted)
        if strict:
            _check_stated(tensor, index, now, wanted)
        _check_bytes(tensor, wanted)


def _check_rank(tensor: Tensor, now: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if len(wanted) == len(now) or not tensor.has_rank:
        return
    error = InputError(
        "an input cannot change its number of dimensions",
        where=tensor.name,
        why=f"it has {list(now)}, {list(wanted)} is asked for",
        fix="reshape the array that is given",
    )
    sentence = f"tensor->dims->size != dims.size() ({len(now)} != {len(wanted)})"
    raise also(error, RuntimeError, sentence)


def _check_stated(
    tensor: Tensor, index: int, now: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    for axis, (stated, before, after) in enumerate(zip(tensor.shape, now, wanted, strict=False)):
        if stated is None or before == after:
            continue
        error = InputError(
            "a size that the file states cannot be changed strictly",
            where=tensor.name,
            why=f"the file has {['?' if size is None else size for size in tensor.shape]}",
            fix="leave strict off, or export the network with this size open",
        )
        sentence = (
            f"Attempting to resize dimension {axis} of tensor {index} with value {before} to "
            f"{after}. ResizeInputTensorStrict only allows mutating unknown dimensions identified "
            "by -1."
        )
        raise also(error, RuntimeError, sentence)


def _check_bytes(tensor: Tensor, wanted: tuple[int, ...]) -> None:
    elements = 1
    for size in wanted:
        elements *= max(size, 1)
    if min(wanted, default=0) >= 0 and elements < _MOST_BYTES:
        return
    negative = min(wanted) < 0
    error = InputError(
        "a size is negative" if negative else "an input would be too large",
        where=tensor.name,
        why=f"{list(wanted)} is asked for",
    )
    raise also(error, RuntimeError, "BytesRequired number of elements overflowed.")
