"""How pixel values (0..255) become the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from circlet.errors import InputError
from circlet.words import counted

KNOWN, IMPLIED, GUESSED = "known", "implied", "guessed"
_WHITE = 255.0
_NEAR = 0.08  # of a range's width: quantised ranges are recorded, and rounded
_PICTURE_CHANNELS = 4
_CHANNELS = (1, 3, 4)
_LEAST_SIDE = 8
_DARK = 16
_BALANCED = 0.2
_TWO_TONED = 0.3
_SMOOTHER = 0.8


@dataclass(frozen=True)
class PixelMapping:
    """Pixels become (pixel - mean) / std.

    Attributes:
        mean, std: One number each, or one for each channel.
        range: What the numbers are called: a key of `RANGES`, or the least and the most of them.
        certainty: "known", "implied" or "guessed".
        why: What says so.
        alternative: Where it was guessed, the key of `RANGES` to try next.
        is_inverted: Whether black and white change places first.
        is_signed: Whether the picture's bytes were taken as signed, so that 128 is black.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    range: str
    certainty: str = KNOWN
    why: str = ""
    alternative: str = ""
    is_inverted: bool = False
    is_signed: bool = False

    @property
    def least(self) -> float:
        """What the darkest pixel becomes, in the channel where that is least."""
        return min(-m / s for m, s in self._channels())

    @property
    def most(self) -> float:
        """What the brightest pixel becomes, in the channel where that is most."""
        return max((_WHITE - m) / s for m, s in self._channels())

    def because(self, certainty: str, why: str, alternative: str = "") -> PixelMapping:
        """The same mapping for another reason."""
        return replace(self, certainty=certainty, why=why, alternative=alternative)

    def as_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> PixelMapping:
        """The mapping that `as_json` wrote."""
        mean, std = (tuple(map(float, fields[name])) for name in ("mean", "std"))
        names = ("range", "certainty", "why", "alternative")
        named, certainty, why, alternative = (str(fields[name]) for name in names)
        return PixelMapping(mean, std, named, certainty, why, alternative)

    def _channels(self) -> list[tuple[float, float]]:
        count = max(len(self.mean), len(self.std))
        return list(zip(_repeated(self.mean, count), _repeated(self.std, count), strict=True))


RANGES = {
    "0..1": PixelMapping((0.0,), (255.0,), "0..1"),
    "-1..1": PixelMapping((127.5,), (127.5,), "-1..1"),
    "0..255": PixelMapping((0.0,), (1.0,), "0..255"),
    "imagenet": PixelMapping((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), "imagenet"),
}
"""Mappings by their names; "imagenet" takes 0..1 less its pictures' means, by their deviations."""


def picture_layout(shape: Sequence[int]) -> str:
    """How a picture lies in an array: "NHWC", "NCHW", "HW" for one without channels, or ""."""
    sizes = tuple(shape)
    if len(sizes) == 3:
        return "HW" if sizes[0] == 1 and sizes[1] == sizes[2] >= _LEAST_SIDE else ""
    if len(sizes) != 4 or sizes[0] != 1:
        return ""
    if sizes[3] in _CHANNELS:
        return "NHWC"
    return "NCHW" if sizes[1] in _CHANNELS and min(sizes[2:]) >= _LEAST_SIDE else ""


def has_signed_bytes(picture: np.ndarray) -> bool:
    """Whether grey tones uint8 [height, width] are far smoother if the bytes are signed.

    Tools for microcontrollers write the signed bytes that a network takes as if they were grey
    tones: what is a little darker than 0 is then white. Such pictures have about as many tones on
    either side of that border; writing on paper, which is not smooth either, has not.
    """
    if min(picture.shape) < _LEAST_SIDE:
        return False
    near = (picture < _DARK).mean(), (picture > _WHITE - _DARK).mean()
    extreme = ((picture == 0) | (picture == _WHITE)).mean()
    if extreme > _TWO_TONED or min(near) < _BALANCED * max(near):
        return False
    return _roughness(picture ^ 0x80) < _SMOOTHER * _roughness(picture)


def _roughness(picture: np.ndarray) -> float:
    tones = picture.astype(np.int16)
    return float(sum(np.abs(np.diff(tones, axis=axis)).mean() for axis in (0, 1)))


def mapping_of(mean: Sequence[float], std: Sequence[float]) -> PixelMapping:
    """The mapping of a mean and a standard deviation, called by its range."""
    made = PixelMapping(tuple(mean), tuple(std), "")
    for name, known in RANGES.items():
        if _ends_agree(made.least, made.most, known, 0.01):
            return replace(made, range=name)
    return replace(made, range=f"{made.least:.4g}..{made.most:.4g}")


def of_whole_range(dtype: np.dtype, scale: float, zero_point: int) -> PixelMapping:
    """The mapping that lays pixels over all steps of a quantised 8-bit input, as they are."""
    lowest = int(np.iinfo(dtype).min)
    return mapping_of((float(zero_point - lowest),), (1.0 / scale,))


def implied_by_quantisation(
    dtype: np.dtype, scale: Sequence[float], zero_point: Sequence[int]
) -> PixelMapping | None:
    """The mapping that the real range of a quantised input implies; None where it implies none."""
    if len(scale) != 1 or dtype.kind not in "iu" or dtype.itemsize > 2 or not scale[0] > 0:
        return None
    limits = np.iinfo(dtype)
    least, most = ((end - zero_point[0]) * scale[0] for end in (limits.min, limits.max))
    shown = f"its quantisation reaches from {least:.4g} to {most:.4g}"
    if dtype.itemsize == 2:
        return _of_symmetric(most, shown)
    for name, known in RANGES.items():
        if _ends_agree(least, most, known, _NEAR):
            found = known if name == "imagenet" else of_whole_range(dtype, scale[0], zero_point[0])
            return replace(found, range=name).because(IMPLIED, shown)
    return None


def implied_by_type(
    dtype: np.dtype, scale: Sequence[float], zero_point: Sequence[int]
) -> PixelMapping | None:
    """What an input's dtype and quantisation say of pixels; None for floats and 16 bits alone."""
    if dtype.kind not in "iu":
        return None
    if len(scale) != 1 or not scale[0] > 0:
        return of_unquantised(dtype)
    implied = implied_by_quantisation(dtype, scale, zero_point)
    if implied is None and dtype.itemsize == 1:
        why = "its quantisation has no usual range; pixels are laid over all of it"
        return of_whole_range(dtype, scale[0], zero_point[0]).because(GUESSED, why, "0..1")
    return implied


def _of_symmetric(most: float, shown: str) -> PixelMapping | None:
    """What a 16-bit input, which reaches as far below 0, implies."""
    if abs(most / _WHITE - 1) < _NEAR:
        return RANGES["0..255"].because(IMPLIED, shown)
    return None


def _ends_agree(least: float, most: float, known: PixelMapping, tolerance: float) -> bool:
    room = tolerance * (known.most - known.least)
    return abs(least - known.least) <= room and abs(most - known.most) <= room


def of_unquantised(dtype: np.dtype) -> PixelMapping:
    """The mapping for integers without a scale: pixels as they are, from the lowest value up."""
    if dtype == np.int8:
        return PixelMapping((128.0,), (1.0,), "-128..127", IMPLIED, "the input is int8")
    return RANGES["0..255"].because(IMPLIED, f"the input is {dtype.name}")


def mapped(
    picture: np.ndarray,
    mapping: PixelMapping,
    dtype: np.dtype,
    scale: Sequence[float] = (),
    zero_point: Sequence[int] = (),
) -> np.ndarray:
    """Pixels uint8 [..., channels] as an array of a network's dtype.

    Raises:
        InputError: The mapping has numbers for another count of channels.
    """
    channels = picture.shape[-1]
    mean, std = (_for_channels(numbers, channels) for numbers in (mapping.mean, mapping.std))
    exact = np.float32 if dtype.kind == "f" else np.float64
    pixels = (255 - picture if mapping.is_inverted else picture).astype(exact)
    real = (pixels - mean.astype(exact)) / std.astype(exact)
    if dtype.kind == "f":
        return real.astype(dtype)
    if len(scale) == 1:
        real = real / scale[0] + zero_point[0]
    elif any(std != 1 for std in mapping.std):
        raise InputError(
            "mean and std need a quantised or float input",
            why=f"the input is {dtype.name} without a scale",
        )
    limits = np.iinfo(dtype)
    return np.rint(real).clip(limits.min, limits.max).astype(dtype)


def _for_channels(numbers: Sequence[float], channels: int) -> np.ndarray:
    """One number for each channel; a picture's transparency takes no part in what is said of 3."""
    if len(numbers) == 1 or len(numbers) == channels:
        return np.array(_repeated(numbers, channels))
    if channels == 1:
        return np.array([float(np.mean(numbers))])
    if channels == _PICTURE_CHANNELS and len(numbers) == channels - 1:
        return np.array([*numbers, float(np.mean(numbers))])
    raise InputError(
        "a mean and deviation for each channel, or one for all, is needed",
        why=f"{len(numbers)} are given for {counted(channels, 'channel')}",
    )


def _repeated(numbers: Sequence[float], count: int) -> tuple[float, ...]:
    return tuple(numbers) * count if len(numbers) == 1 else tuple(numbers)
