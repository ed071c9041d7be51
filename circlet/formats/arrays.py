"""Input files as arrays: pictures, numpy files and raw bytes, shaped as a network wants them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from circlet.errors import CircletError, FileError, InputError, LimitError
from circlet.formats.numpy_files import Header, read_numpy
from circlet.formats.pixels import (
    GUESSED,
    RANGES,
    PixelMapping,
    has_signed_bytes,
    implied_by_type,
    mapped,
    picture_layout,
)
from circlet.limits import DEFAULT_LIMITS
from circlet.regular_files import open_regular
from circlet.small_dtypes import SMALL_BITS, dtype_named
from circlet.words import counted

if TYPE_CHECKING:
    from PIL.Image import Image

SOUNDS = frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au"))
NO_PICTURES = frozenset({".npy", ".npz", ".raw", ".bin", *SOUNDS})
_FILE = "an input file"
_PICTURE_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_BILINEAR = 2  # PIL.Image.Resampling.BILINEAR
_NO_PICTURE = "it is no picture of a format that Pillow reads"
_PIXEL_BYTES = 8  # as decoded, and as converted
_PART_ELEMENTS = 1 << 20
_OPEN_STEP = 32  # of sides that a network leaves open
_LONGEST_OPEN_SIDE = 640


@dataclass(frozen=True)
class Wanted:
    """What a network's input looks like.

    Attributes:
        name: The input's name, for messages.
        dtype: numpy dtype name.
        shape: Sizes; a picture is [1, height, width, channels], [1, channels, height, width], or
            [1, size, size] where it is grey; channels are 1, 3 or 4.
        scale, zero_point: Quantisation, empty where the input is not quantised.
        open: Dimensions that the network's file leaves open: a file decides about them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    open: tuple[int, ...] = ()

    @property
    def layout(self) -> str:
        """How a picture lies in it, as `pixels.picture_layout` has it; "" if none does."""
        open_sides = [index for index in self.open if index]
        return picture_layout(
            [_OPEN_STEP if i in open_sides else size for i, size in enumerate(self.shape)]
        )

    @property
    def sides(self) -> tuple[int, int]:
        """The dimensions of a picture's height and width."""
        return (2, 3) if self.layout == "NCHW" else (1, 2)

    def of_shape(self, shape: Sequence[int]) -> Wanted:
        """The same input at other sizes, none of which are open."""
        return replace(self, shape=tuple(shape), open=())

    def for_picture(self, width: int, height: int) -> Wanted:
        """The same input at the sizes that a picture of so many pixels gets.

        Where both of its sides are open they keep the picture's proportions, the longer one being
        at most 640, and where one is, it follows from the other. Networks halve their pictures up
        to five times, so that open sides are multiples of 32.
        """
        shape, sides = list(self.shape), self.sides
        pairs = zip(sides, (height, width), strict=True)
        free = [(side, pixels) for side, pixels in pairs if side in self.open]
        if not free:
            return self.of_shape(shape)
        part = min(1.0, _LONGEST_OPEN_SIDE / max(width, height))
        if len(free) == 1:
            fixed = sides[0] if free[0][0] == sides[1] else sides[1]
            part = shape[fixed] / (height if fixed == sides[0] else width)
        for side, pixels in free:
            shape[side] = max(1, round(part * pixels / _OPEN_STEP)) * _OPEN_STEP
        return self.of_shape(shape)

    @property
    def mapping(self) -> PixelMapping:
        """What its dtype and quantisation imply of pixels, else a guess."""
        implied = implied_by_type(dtype_named(self.dtype), self.scale, self.zero_point)
        return implied or RANGES["0..1"].because(GUESSED, "nothing says otherwise", "-1..1")


def read_array(
    path: Path,
    wanted: Wanted,
    pixels: PixelMapping | None = None,
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes,
) -> np.ndarray:
    """The contents of a file as an input array, C-contiguous, of the wanted dtype and shape.

    `.npy` and `.npz` hold arrays (of an .npz the one named like the input, or the only one),
    `.raw` and `.bin` hold the elements' bytes, anything else is opened as a picture.
    Pixels are mapped as `pixels` says, else as the input's type implies.
    A network that takes strings gets the lines of any other file. What a file says of its sizes is
    checked before it is unpacked.

    Raises:
        FileError: The file cannot be read.
        InputError: Its contents do not fit.
        LimitError: To unpack it would take more memory than `memory_bytes`.
    """
    check = partial(_check, wanted, path, memory_bytes)
    with _readable(path):
        if path.suffix in (".npy", ".npz"):
            return _fitted(read_numpy(path, check, wanted.name), wanted)
        if wanted.dtype == "object":
            return _read_lines(path, wanted, memory_bytes)
        if path.suffix in (".raw", ".bin"):
            return _read_raw(path, wanted)
        return from_picture(picture_for(path, wanted, memory_bytes)[0], wanted, pixels)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """FileError for whatever decoders of damaged files stumble over."""
    try:
        yield
    except CircletError:
        raise
    except Exception as error:
        fix = "give a picture, or .npy, .npz, .raw, .wav, .mp3, by these endings"
        found = FileError.unreadable(_FILE, path, error, fix)
        if "cannot identify image" in found.why:  # what Pillow says goes on with an object of ours
            found = FileError(found.what, where=found.where, why=_NO_PICTURE, fix=fix)
        raise found from error


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
    if array.dtype != dtype_named(wanted.dtype) and not is_text:
        kind = "str" if wanted.dtype == "object" else wanted.dtype
        fix = f"store array.astype('{kind}')"
        raise _misfit(path, wanted, f"it holds {array.dtype}", fix)
    if _sizes_of(array.shape, wanted) is None:
        raise _misfit(path, wanted, f"its shape is {list(array.shape)}")
    check_unpacked(prod(array.shape) * array.dtype.itemsize, memory_bytes, path)


def _fitted(array: np.ndarray, wanted: Wanted) -> np.ndarray:
    """The array with the wanted shape; sizes of 1 may be missing or extra."""
    if array.dtype.kind in "SU":
        array = array.astype(object)
    return np.ascontiguousarray(array).reshape(_sizes_of(array.shape, wanted) or wanted.shape)


def _sizes_of(shape: Sequence[int], wanted: Wanted) -> tuple[int, ...] | None:
    """The sizes that an array of a shape gets as an input, None where it does not fit."""
    sizes = tuple(
        given if index in wanted.open else size
        for index, (given, size) in enumerate(zip(shape, wanted.shape, strict=False))
    )
    if sizes == tuple(shape):
        return sizes
    significant = [size for size in wanted.shape if size != 1]
    return wanted.shape if [size for size in shape if size != 1] == significant else None


def _read_lines(path: Path, wanted: Wanted, memory_bytes: int) -> np.ndarray:
    with open_regular(path, _FILE) as file:
        check_unpacked(2 * os.fstat(file.fileno()).st_size, memory_bytes, path)
        lines = file.read().splitlines()
    if len(lines) != prod(wanted.shape):
        raise _misfit(path, wanted, f"it has {counted(len(lines), 'line')}")
    return np.array(lines, object).reshape(wanted.shape)


def _read_raw(path: Path, wanted: Wanted) -> np.ndarray:
    size = prod(wanted.shape) * dtype_named(wanted.dtype).itemsize
    with open_regular(path, _FILE) as file:
        held = os.fstat(file.fileno()).st_size
        if held != size:
            raise _misfit(path, wanted, f"it has {held} bytes, not {size}")
        return np.fromfile(file, wanted.dtype).reshape(wanted.shape)


def _misfit(path: Path, wanted: Wanted, why: str, fix: str = "") -> InputError:
    return InputError(
        f"the file does not fit input {wanted.name!r}",
        where=str(path),
        why=f"{why}; the network wants {wanted.dtype} {list(wanted.shape)}",
        fix=fix,
    )


def picture_for(
    path: Path,
    wanted: Wanted,
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes,
    is_signed: bool | None = None,
) -> tuple[np.ndarray, bool]:
    """A picture at an input's size, uint8 [height, width, channels]; raises as `read_array`.

    Tells also whether the bytes of its grey tones were taken as signed; `is_signed` None leaves
    that to their looks.
    """
    _check_layout(path, wanted)
    shown = decoded_picture(path, None, memory_bytes)
    height, width, channels = _picture_sizes(wanted.for_picture(*shown.size))
    if is_signed is None:
        is_signed = shown.mode == "L" and has_signed_bytes(np.asarray(shown))
    if is_signed:
        shown = shown.convert("L").point(lambda tone: tone ^ 0x80)
    sized = shown.convert(_PICTURE_MODES[channels]).resize((width, height), _BILINEAR)
    return np.asarray(sized, np.uint8).reshape(height, width, channels), is_signed


def _check_layout(path: Path, wanted: Wanted) -> None:
    if not wanted.layout:
        fix = "give its numbers, such as those of words, as .npy, .npz or .raw"
        raise _misfit(path, wanted, "a picture cannot have that shape", fix)


def _picture_sizes(wanted: Wanted) -> tuple[int, int, int]:
    """Height, width and channels of the picture that an input takes."""
    layout, shape = wanted.layout, wanted.shape
    if layout == "HW":
        return shape[1], shape[2], 1
    return shape[1:4] if layout == "NHWC" else (*shape[2:4], shape[1])  # type: ignore[return-value]


def decoded_picture(
    path: Path, mode: str | None = "RGB", memory_bytes: int = DEFAULT_LIMITS.memory_bytes
) -> Image:
    """A picture of a file, upright as its camera noted, in a mode of Pillow's or its own.

    Raises:
        FileError: The file cannot be read.
        InputError: Pillow is not installed, or the file holds no picture.
        LimitError: To unpack it would take more memory than `memory_bytes`.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise InputError(
            "pictures need Pillow", where=str(path), fix="pip install 'circlet[images]'"
        ) from error
    with (
        _readable(path),
        _refusing_bombs(path, Image.DecompressionBombError),
        _quiet_warnings(),
        open_regular(path, _FILE) as file,
        Image.open(file) as picture,
    ):
        check_unpacked(prod(picture.size) * _PIXEL_BYTES, memory_bytes, path)
        return ImageOps.exif_transpose(picture).convert(mode or picture.mode)


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


def from_picture(
    picture: np.ndarray, wanted: Wanted, pixels: PixelMapping | None = None
) -> np.ndarray:
    """Pixels uint8 [height, width, channels] as an input array.

    Raises:
        InputError: The mapping has numbers for another count of channels.
    """
    dtype = dtype_named(wanted.dtype)
    found = mapped(picture, pixels or wanted.mapping, dtype, wanted.scale, wanted.zero_point)
    if wanted.layout == "NCHW":
        found = np.moveaxis(found, -1, 0)
    height, width, _ = picture.shape
    return np.ascontiguousarray(found).reshape(wanted.for_picture(width, height).shape)


def random_array(wanted: Wanted, seed: int = 0) -> np.ndarray:
    """Seeded random data: floats in -1..1, integers over their range (0..9 from 32 bits), words."""
    generator = np.random.default_rng(seed)
    dtype, count = dtype_named(wanted.dtype), prod(wanted.shape)
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
    if dtype.name.upper() in SMALL_BITS:  # 0 and 1, which all of them hold
        return generator.integers(0, 2, wanted.shape).astype(dtype)
    limits = np.iinfo(np.dtype(wanted.dtype))
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
