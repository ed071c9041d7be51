"""Input files as arrays: pictures, numpy files and raw bytes, shaped as a network wants them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from circlet.errors import CircletError, FileError, InputError, LimitError
from circlet.formats.numpy_files import Header, read_numpy
from circlet.limits import DEFAULT_LIMITS
from circlet.regular_files import open_regular

SOUNDS = frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au"))
NO_PICTURES = frozenset({".npy", ".npz", ".raw", ".bin", *SOUNDS})
_FILE = "an input file"
_PICTURE_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_PIXEL_BYTES = 8  # as decoded, and as converted
_PART_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What a network's input looks like.

    Attributes:
        name: The input's name, for messages.
        dtype: numpy dtype name.
        shape: Sizes; pictures need [1, height, width, 1, 3 or 4].
        scale, zero_point: Quantisation, empty where the input is not quantised.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()

    @property
    def is_picture(self) -> bool:
        """Whether the shape is that of one picture."""
        return len(self.shape) == 4 and self.shape[0] == 1 and self.shape[3] in _PICTURE_MODES


@dataclass(frozen=True)
class Normalisation:
    """How pixels (0..255) become numbers: (pixel - mean) / std; None takes the default.

    By default a float input gets -1..1 (mean and std 127.5), and a quantised input gets its whole
    range: pixel values as they are for uint8, less 128 for int8.
    """

    mean: float | None = None
    std: float | None = None


DEFAULT_PIXELS = Normalisation()


def read_array(
    path: Path,
    wanted: Wanted,
    pixels: Normalisation = DEFAULT_PIXELS,
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes,
) -> np.ndarray:
    """The contents of a file as an input array, C-contiguous, of the wanted dtype and shape.

    `.npy` and `.npz` hold arrays (of an .npz the one named like the input, or the only one),
    `.raw` and `.bin` hold the elements' bytes, anything else is opened as a picture.
    A network that takes strings gets the lines of any other file. What a file says of its sizes is
    checked before it is unpacked.

    Raises:
        FileError: The file cannot be read.
        InputError: Its contents do not fit.
        LimitError: To unpack it would take more memory than `memory_bytes`.
    """
    check = partial(_check, wanted, path, memory_bytes)
    try:
        if path.suffix in (".npy", ".npz"):
            return _fitted(read_numpy(path, check, wanted.name), wanted)
        if wanted.dtype == "object":
            return _read_lines(path, wanted, memory_bytes)
        if path.suffix in (".raw", ".bin"):
            return _read_raw(path, wanted)
        return _read_picture(path, wanted, pixels, memory_bytes)
    except CircletError:
        raise
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        fix = "give a picture, or .npy, .npz, .raw, .wav, .mp3, by these endings"
        raise FileError.unreadable(_FILE, path, error, fix) from error


def check_unpacked(size_bytes: int, memory_bytes: int, path: Path) -> None:
    """LimitError where an input file takes more memory than it may."""
    if size_bytes > memory_bytes:
        raise LimitError(
            "an input file takes more memory than allowed",
            where=str(path),
            why=f"it unpacks to {size_bytes} bytes, the limit is {memory_bytes}",
            fix="raise `memory_bytes` of circlet.limits.Limits, or --max-memory, if meant",
        )


def _check(wanted: Wanted, path: Path, memory_bytes: int, array: Header) -> None:
    """See that an array fits an input before its elements are read."""
    is_text = wanted.dtype == "object" and array.dtype.kind in "SU"
    if array.dtype != np.dtype(wanted.dtype) and not is_text:
        raise _misfit(path, wanted, f"it holds {array.dtype}")
    significant = [size for size in wanted.shape if size != 1]
    if [size for size in array.shape if size != 1] != significant:
        raise _misfit(path, wanted, f"its shape is {list(array.shape)}")
    check_unpacked(prod(array.shape) * array.dtype.itemsize, memory_bytes, path)


def _fitted(array: np.ndarray, wanted: Wanted) -> np.ndarray:
    """The array with the wanted shape; sizes of 1 may be missing or extra."""
    if array.dtype.kind in "SU":
        array = array.astype(object)
    return np.ascontiguousarray(array).reshape(wanted.shape)


def _read_lines(path: Path, wanted: Wanted, memory_bytes: int) -> np.ndarray:
    with open_regular(path, _FILE) as file:
        check_unpacked(2 * os.fstat(file.fileno()).st_size, memory_bytes, path)
        lines = file.read().splitlines()
    if len(lines) != prod(wanted.shape):
        raise _misfit(path, wanted, f"it has {len(lines)} lines")
    return np.array(lines, object).reshape(wanted.shape)


def _read_raw(path: Path, wanted: Wanted) -> np.ndarray:
    size = prod(wanted.shape) * np.dtype(wanted.dtype).itemsize
    with open_regular(path, _FILE) as file:
        held = os.fstat(file.fileno()).st_size
        if held != size:
            raise _misfit(path, wanted, f"it has {held} bytes, not {size}")
        return np.fromfile(file, wanted.dtype).reshape(wanted.shape)


def _misfit(path: Path, wanted: Wanted, why: str) -> InputError:
    return InputError(
        f"the file does not fit input {wanted.name!r}",
        where=str(path),
        why=f"{why}; the network wants {wanted.dtype} {list(wanted.shape)}",
    )


def _read_picture(
    path: Path, wanted: Wanted, pixels: Normalisation, memory_bytes: int
) -> np.ndarray:
    if not wanted.is_picture:
        raise _misfit(path, wanted, "a picture cannot have that shape")
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "pictures need Pillow", where=str(path), fix="pip install 'circlet[images]'"
        ) from error
    _, height, width, channels = wanted.shape
    with (
        _refusing_bombs(path, Image.DecompressionBombError),
        _quiet_warnings(),
        open_regular(path, _FILE) as file,
        Image.open(file) as picture,
    ):
        check_unpacked(prod(picture.size) * _PIXEL_BYTES, memory_bytes, path)
        shown = picture.convert(_PICTURE_MODES[channels])
        sized = shown.resize((width, height), Image.Resampling.BILINEAR)
    return _from_pixels(np.asarray(sized, np.uint8).reshape(wanted.shape), wanted, pixels)


@contextmanager
def _refusing_bombs(path: Path, bomb: type[Exception]) -> Iterator[None]:
    """Say in our words that a picture is larger than Pillow unpacks."""
    try:
        yield
    except bomb as error:
        raise LimitError(
            "a picture has more pixels than are unpacked",
            where=str(path),
            why="it has more than 178 million",
            fix="make it smaller, or give its pixels as .npy",
        ) from error


@contextmanager
def _quiet_warnings() -> Iterator[None]:
    """Have Pillow say nothing of large pictures: their size is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _from_pixels(picture: np.ndarray, wanted: Wanted, pixels: Normalisation) -> np.ndarray:
    dtype = np.dtype(wanted.dtype)
    if dtype.kind in "iu" and pixels.mean is None and pixels.std is None:
        lowest = -128 if dtype == np.int8 else 0
        return (picture.astype(np.int32) + lowest).astype(dtype)
    mean = 127.5 if pixels.mean is None else pixels.mean
    std = 127.5 if pixels.std is None else pixels.std
    real = (picture.astype(np.float32) - np.float32(mean)) / np.float32(std)
    if dtype.kind == "f":
        return real.astype(dtype)
    if len(wanted.scale) != 1:
        raise InputError("mean and std need a quantised or float input", where=wanted.name)
    steps = np.rint(real / wanted.scale[0]) + wanted.zero_point[0]
    limits = np.iinfo(dtype)
    return steps.clip(limits.min, limits.max).astype(dtype)


def random_array(wanted: Wanted, seed: int = 0) -> np.ndarray:
    """Seeded random data: floats in -1..1, integers over their range (0..9 from 32 bits), words."""
    generator = np.random.default_rng(seed)
    dtype, count = np.dtype(wanted.dtype), prod(wanted.shape)
    if dtype.kind == "f":
        return _in_parts(lambda n: generator.uniform(-1, 1, n), wanted.shape, dtype)
    if dtype.kind == "O":
        words = np.array([b"word %d" % number for number in range(100)], object)
        return words[generator.integers(0, 100, count)].reshape(wanted.shape)
    if dtype.kind == "b":
        return _in_parts(lambda n: generator.integers(0, 2, n), wanted.shape, dtype)
    if dtype.kind == "c":

        def pairs(n: int) -> np.ndarray:
            return generator.uniform(-1, 1, (n, 2)).view(np.complex128)[..., 0]

        return _in_parts(pairs, wanted.shape, dtype)
    if dtype.itemsize > 2:
        return _in_parts(lambda n: generator.integers(0, 10, n), wanted.shape, dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, wanted.shape, endpoint=True, dtype=dtype)


def _in_parts(
    draw: Callable[[int], np.ndarray], shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Numbers that are drawn in wider types than they are kept in, a part at a time."""
    made = np.empty(prod(shape), dtype)
    for first in range(0, made.size, _PART_ELEMENTS):
        part = made[first : first + _PART_ELEMENTS]
        part[...] = draw(part.size)
    return made.reshape(shape)
