"""Input files of `circlet run` as arrays, and how what they hold was mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from circlet.artifact.values import Value, unique_names
from circlet.errors import InputError
from circlet.formats.arrays import (
    NO_PICTURES,
    SOUNDS,
    Wanted,
    from_picture,
    picture_for,
    read_array,
)
from circlet.formats.numpy_files import holds_several
from circlet.formats.pixels import GUESSED, KNOWN, RANGES, PixelMapping, mapping_of
from circlet.formats.sound import DEFAULT_SOUND, SoundOptions, read_sound_input
from circlet.runtime.session import Session
from circlet.words import counted

_LARGEST_DIGIT_SIDE = 32
_DIGITS = 10
_BRIGHT = 127.5
_SIGNED = "the picture's tones wrap around as those of signed bytes do, and are taken as such"
_INK = "it shows dark on bright, and networks of ten small grey classes know bright on dark"


@dataclass(frozen=True)
class PixelOptions:
    """What the user says of how pixels (0..255) become numbers.

    Attributes:
        range: A key of `RANGES`, "" where not said.
        mean, std: Numbers become (pixel - mean) / std; empty where not said.
        is_inverted: Whether black and white change places first; None where not said.
        is_signed: Whether the bytes of grey tones are signed; None where not said.
    """

    range: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    is_inverted: bool | None = None
    is_signed: bool | None = None


DEFAULT_PIXELS = PixelOptions()


@dataclass(frozen=True)
class InputOptions:
    """How files become inputs; `memory_bytes` bounds what each may unpack to."""

    pixels: PixelOptions = DEFAULT_PIXELS
    sound: SoundOptions = DEFAULT_SOUND
    memory_bytes: int = 0


@dataclass(frozen=True)
class Given:
    """What the network is given.

    Attributes:
        arrays: One for each input.
        origins: Where each came from.
        pixels: How each picture was mapped, None for other inputs.
        picture: The file of the first picture.
    """

    arrays: list[np.ndarray]
    origins: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    pixels: tuple[PixelMapping | None, ...] = field(default=())
    picture: Path | None = None


def read_inputs(
    files: Sequence[Path],
    values: Sequence[Value],
    options: InputOptions,
    about: Mapping[str, Any],
    classes: int = 0,
) -> Given:
    """The files as inputs, in order.

    Args:
        files: One for each input, or one .npz with an array of each input's name.
        values: The network's inputs.
        options: How to read them.
        about: What is known of the network, as `circlet.formats.about` has it.
        classes: How many classes the network tells apart, 0 where unknown.

    Raises:
        InputError: There are too few or too many files, or one does not fit.
        CircletError: As `read_array` and `read_sound_input`.
    """
    if len(files) == 1 and len(values) > 1 and holds_several(files[0]):
        files = [*files] * len(values)
    if len(files) != len(values):
        names = [value.name for value in values]
        raise InputError(
            f"{counted(len(files), 'input file')} given, {len(values)} wanted",
            fix=f"one --input for each of {names}, in that order, or one .npz of these names",
        )
    facts = about.get("inputs", ())
    facts = facts if len(facts) == len(values) else [{}] * len(values)
    rows = [
        _read_input(path, wanted_of(value), options, known, classes)
        for path, value, known in zip(files, values, facts, strict=True)
    ]
    pixels = tuple(mapping for _, _, mapping in rows)
    picture = next((path for path, mapping in zip(files, pixels, strict=True) if mapping), None)
    origins = tuple(origin for _, origin, _ in rows)
    return Given([array for array, _, _ in rows], origins, (), pixels, picture)


def _read_input(
    path: Path, wanted: Wanted, options: InputOptions, known: Mapping[str, Any], classes: int
) -> tuple[np.ndarray, str, PixelMapping | None]:
    """The array of a file, where it is from, and how its pixels were mapped if it is a picture."""
    if path.suffix.lower() in SOUNDS:
        array, origin = read_sound_input(path, wanted, options.sound, options.memory_bytes)
        return array, origin + _open_sizes(wanted, array), None
    if is_picture(path, wanted):
        array, mapping = _read_picture(path, wanted, options, known, classes)
        return array, f"{path}{_open_sizes(wanted, array)}", mapping
    return read_array(path, wanted, None, options.memory_bytes), str(path), None


def _open_sizes(wanted: Wanted, array: np.ndarray) -> str:
    """What to say of sizes that the network's file leaves open, beside its batch."""
    if not any(wanted.open):
        return ""
    sizes = "x".join(map(str, array.shape))
    return f" (as {sizes}: the file leaves sizes open, --shape {wanted.name}=... has others)"


def inputs_of(session: Session) -> list[Value]:
    """A session's inputs; sizes that were asked for, or that an artifact has, are open no more."""
    named, is_fixed = dict(session.options.shapes), session.source is None
    return [
        value._replace(open=()) if is_fixed or name in named else value
        for name, value in zip(unique_names(session.inputs), session.inputs, strict=True)
    ]


def wanted_of(value: Value) -> Wanted:
    """What a file is to be read as."""
    return Wanted(value.name, value.dtype, value.shape, value.scale, value.zero_point, value.open)


def is_picture(path: Path, wanted: Wanted) -> bool:
    """Whether a file is to be opened as a picture."""
    is_other = path.suffix.lower() in NO_PICTURES or wanted.dtype == "object"
    return not is_other and bool(wanted.layout)


def check_used(files: Sequence[Path], options: InputOptions) -> None:
    """InputError where options say how to read a kind of input that is not given."""
    suffixes = {path.suffix.lower() for path in files}
    asked = _asked_of_pixels(options.pixels)
    sounds = "--rate, --start and --features"
    kinds = (
        (sounds, "sounds", options.sound != DEFAULT_SOUND, SOUNDS),
        (asked, "pictures", bool(asked), suffixes - NO_PICTURES),
    )
    for names, read, is_asked, matching in kinds:
        if is_asked and not suffixes & matching:
            raise InputError(
                f"{names} are for {read}",
                why=f"the inputs are {' and '.join(sorted(suffixes)) or 'random data'}",
                fix="leave them out, or give such a file with --input",
            )
    if options.pixels.range and (options.pixels.mean or options.pixels.std):
        raise InputError("--pixels and --mean or --std say the same twice", fix="give one of them")


def _asked_of_pixels(pixels: PixelOptions) -> str:
    if pixels.range or pixels.is_inverted is not None or pixels.is_signed is not None:
        return "--pixels, --invert and --signed-bytes"
    return "--mean and --std" if pixels.mean or pixels.std else ""


def _read_picture(
    path: Path, wanted: Wanted, options: InputOptions, known: Mapping[str, Any], classes: int
) -> tuple[np.ndarray, PixelMapping]:
    said = options.pixels
    picture, is_signed = picture_for(path, wanted, options.memory_bytes, said.is_signed)
    mapping = replace(chosen_mapping(wanted, said, known), is_signed=is_signed)
    if is_signed and not said.is_signed:
        mapping = _guessed(mapping, _SIGNED)
    if options.pixels.is_inverted is None and _is_ink_on_paper(picture, classes):
        mapping = replace(_guessed(mapping, _INK), is_inverted=True)
    return from_picture(picture, wanted, mapping), mapping


def chosen_mapping(wanted: Wanted, options: PixelOptions, known: Mapping[str, Any]) -> PixelMapping:
    """How pixels are mapped: as the user says, else as the network's file says or implies."""
    found = PixelMapping.from_json(known["pixels"]) if known.get("pixels") else wanted.mapping
    if options.range:  # what quantisation implies of a range of this name is exacter than the name
        named = found if found.range == options.range else RANGES[options.range]
        found = named.because(KNOWN, "--pixels says so")
    elif options.mean or options.std:
        said = mapping_of(options.mean or found.mean, options.std or found.std)
        found = said.because(KNOWN, "--mean and --std say so")
    return replace(found, is_inverted=bool(options.is_inverted))


def _guessed(mapping: PixelMapping, why: str) -> PixelMapping:
    """A mapping of which one more thing is guessed."""
    reasons = "; ".join(filter(None, (mapping.why, why)))
    return replace(mapping, certainty=GUESSED, why=reasons)


def _is_ink_on_paper(picture: np.ndarray, classes: int) -> bool:
    """Whether a small grey picture of a digit is darker inside than around."""
    height, width, channels = picture.shape
    if channels != 1 or max(height, width) > _LARGEST_DIGIT_SIDE or classes != _DIGITS:
        return False
    edges = (picture[0], picture[-1], picture[:, 0], picture[:, -1])
    border = float(np.median(np.concatenate([edge.reshape(-1) for edge in edges])))
    return border > _BRIGHT and float(picture.mean()) < border
