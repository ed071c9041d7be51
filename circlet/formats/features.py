"""Which features of a sound a network wants, and how they are computed, by name or by evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from circlet.errors import InputError
from circlet.formats.arrays import Wanted, check_unpacked
from circlet.formats.microfrontend import microfrontend
from circlet.formats.spectra import (
    Mel,
    Real,
    Recipe,
    features_of,
    hamming,
    povey,
    timing,
)
from circlet.words import counted

WAVEFORM = "none"
_LEAST = 1e-6
_KALDI_LEAST = 1.1920929e-07
_PREEMPHASIS_TINY, _PREEMPHASIS_KALDI = 1 - 2**-5, 0.97


def _to_peak(samples: Real) -> Real:
    return samples / max(float(samples.max(initial=0.0)), _LEAST)


def _emphasised(samples: Real) -> Real:
    loud = _to_peak(samples)
    return loud - _PREEMPHASIS_TINY * np.pad(loud[:-1], (1, 0))


def _kaldi_frames(cut: Real) -> Real:
    level = (cut - cut.mean(axis=1, keepdims=True)) * (1 << 15)
    return level - _PREEMPHASIS_KALDI * np.pad(level[:, :-1], ((0, 0), (1, 0)), mode="edge")


def _tiny_decibels(bands: Real) -> Real:
    """Of energies that are to be divided by the 1024 samples of a frame."""
    decibels = 10 * np.log10(np.maximum(bands / 1024, 1e-30))
    return np.clip((decibels + 52) / 64, 0.0, 1.0)


def _whisper_logarithms(bands: Real) -> Real:
    logs = np.log10(np.maximum(bands, 1e-10))
    return (np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0


RECIPES = {
    "mfcc": Recipe(
        "cepstral coefficients as MLPerf Tiny's keyword spotter is trained on",
        {0: (30, 20)},
        lambda bands: np.log(bands + _LEAST),
        Mel(20, 4000),
        cosine=True,
        prepare=_to_peak,
    ),
    "mfcc-tf": Recipe(
        "cepstral coefficients of TensorFlow's kernels AudioSpectrogram and Mfcc",
        {0: (30, 20), 25: (40, 40), 49: (40, 20), 98: (30, 10)},
        lambda bands: np.log(np.maximum(bands, 1e-12)),
        Mel(20, 4000, skips_near=True),
        cosine=True,
    ),
    "log-mel-tiny": Recipe(
        "decibels of mel bands as MLPerf Tiny's streaming wake word is trained on",
        {0: (64, 32)},
        _tiny_decibels,
        Mel(0),
        power=2,
        window=hamming,
        prepare=_emphasised,
    ),
    "log-mel-yamnet": Recipe(
        "logarithms of mel bands of VGGish and YAMNet",
        {0: (25, 10)},
        lambda bands: np.log(bands + 0.001),
        Mel(125, 7500),
    ),
    "log-mel-whisper": Recipe(
        "logarithms of mel bands of Whisper",
        {0: (25, 10)},
        _whisper_logarithms,
        Mel(0, slaney=True),
        power=2,
        fft=400,
        centred=True,
        bands_first=True,
    ),
    "log-mel-librosa": Recipe(
        "decibels of librosa's mel bands, as MLPerf Tiny's anomaly detector is trained on",
        {0: (64, 32)},
        lambda bands: 10 * np.log10(bands + np.finfo(float).eps),
        Mel(0, slaney=True),
        power=2,
        centred=True,
    ),
    "fbank-kaldi": Recipe(
        "logarithms of mel bands of Kaldi and torchaudio, of samples as 16-bit numbers",
        {0: (25, 10)},
        lambda bands: np.log(np.maximum(bands, _KALDI_LEAST)),
        Mel(20),
        power=2,
        window=povey,
        each=_kaldi_frames,
    ),
    "spectrogram": Recipe(
        "magnitudes of the Fourier transform, as in TensorFlow's audio tutorial",
        {0: (30, 20), 124: (255 / 16, 8)},
        np.asarray,
    ),
}
_FRONT_END = "microfrontend"
_FRONT_END_TIMINGS = {0: (30.0, 10.0), 49: (30.0, 20.0)}

NAMES = (*RECIPES, _FRONT_END, WAVEFORM)
"""What `SoundOptions.features` may be; WAVEFORM hands over the samples themselves."""

_SHAPES = {
    (49, 10): ("mfcc", 49, 10),
    (490,): ("mfcc-tf", 49, 10),
    (98, 40): ("mfcc-tf", 98, 40),
    (3920,): ("mfcc-tf", 98, 40),
    (49, 40): (_FRONT_END, 49, 40),
    (1960,): (_FRONT_END, 49, 40),
    (30, 40): ("log-mel-tiny", 30, 40),
    (96, 64): ("log-mel-yamnet", 96, 64),
    (80, 3000): ("log-mel-whisper", 3000, 80),
    (5, 128): ("log-mel-librosa", 5, 128),
    (640,): ("log-mel-librosa", 5, 128),
    (49, 257): ("spectrogram", 49, 257),
    (124, 129): ("spectrogram", 124, 129),
}
_LEAST_SAMPLES = 16
_FRAME_SAMPLE_BYTES = 64  # weighted, then transformed and squared at up to twice the size
_LOWEST_OF_TF = -150.0  # of a coefficient: 40 logarithms of 1e-12 make -247, of 1e-6 -124
_FRONT_END_RANGE = 26.0


@dataclass(frozen=True)
class Chosen:
    """Features for an input.

    Attributes:
        name: One of `NAMES`.
        why: What it was chosen by, or "" where it was asked for.
        frames, width: Of the features.
    """

    name: str
    why: str = ""
    frames: int = 0
    width: int = 0


def chosen(wanted: Wanted, asked: str, where: str) -> Chosen:
    """The features that an input is given: those asked for, or those that its shape tells of.

    Raises:
        InputError: There are none by that name, they do not have that shape, or no features that
            are known have.
    """
    if asked and asked not in NAMES:
        raise InputError(f"unknown features {asked!r}", fix=f"one of {', '.join(NAMES)}")
    sizes = tuple(size for size in wanted.shape if size > 1)
    if asked == WAVEFORM or (not asked and sizes not in _SHAPES and _is_waveform(wanted, sizes)):
        if not _is_waveform(wanted, sizes):
            raise _misfit(wanted, where, "is no waveform")
        return Chosen(WAVEFORM)
    if asked:
        frames, width = _sizes_for(asked, sizes, wanted, where)
        return Chosen(asked, "", frames, width)
    if sizes in _SHAPES and _is_storable(wanted):
        name, frames, width = _SHAPES[sizes]
        by_range = _name_by_range(wanted, name)
        if by_range:
            return Chosen(by_range, "the input's shape and range", frames, width)
        return Chosen(name, "the input's shape", frames, width)
    if len(sizes) == 2 and _is_front_end(wanted):
        return Chosen(_FRONT_END, "the input's shape and range", *sizes)
    raise _misfit(wanted, where, "is neither a waveform nor features whose shape is known")


def check_computable(choice: Chosen, rate: int, memory_bytes: int, path: Path) -> None:
    """That there are enough samples in a frame, and not too many in all of them.

    Raises:
        InputError: Frames at that rate hold too few samples, or more than a spectrum that narrow.
        LimitError: The frames take more memory than `memory_bytes`.
    """
    length = round(timing(_timings(choice), choice.frames)[0] * rate / 1000)
    is_spectrum = choice.name in RECIPES and RECIPES[choice.name].mel is None
    most = 2 * (choice.width - 1) if is_spectrum else length
    if not _LEAST_SAMPLES <= length <= most:
        raise InputError(
            f"the features {choice.name!r} cannot be computed at {rate} samples a second",
            where=str(path),
            why=f"a frame has {counted(length, 'sample')}, at least {_LEAST_SAMPLES} are needed"
            + (f" and at most {most} for {choice.width} frequencies" if is_spectrum else ""),
            fix="give the rate that the network was trained on with --rate",
        )
    check_unpacked(choice.frames * length * _FRAME_SAMPLE_BYTES, memory_bytes, path)


def computed(choice: Chosen, samples: Real, rate: int, wanted: Wanted) -> np.ndarray:
    """The features of a sound as real numbers, in the input's shape."""
    if choice.name == _FRONT_END:
        times = timing(_FRONT_END_TIMINGS, choice.frames)
        found = microfrontend(samples, rate, choice.frames, choice.width, *times)
    else:
        recipe = RECIPES[choice.name]
        found = features_of(recipe, samples, rate, choice.frames, choice.width)
        found = found.T if recipe.bands_first else found
    return found.reshape(wanted.shape)


def seconds_used(choice: Chosen) -> float:
    """How much of a sound its features are made of."""
    length, hop = timing(_timings(choice), choice.frames)
    return (length + (choice.frames - 1) * hop) / 1000


def _timings(choice: Chosen) -> Mapping[int, tuple[float, float]]:
    return _FRONT_END_TIMINGS if choice.name == _FRONT_END else RECIPES[choice.name].timings


def _is_waveform(wanted: Wanted, sizes: tuple[int, ...]) -> bool:
    return len(sizes) <= 1 and wanted.dtype in ("float32", "float16", "int16")


def _is_storable(wanted: Wanted) -> bool:
    return len(wanted.scale) == 1 or "float" in wanted.dtype


def _is_front_end(wanted: Wanted) -> bool:
    """Whether the range of a quantised input is the one that the front end's networks have."""
    if wanted.dtype != "int8" or len(wanted.scale) != 1 or wanted.zero_point != (-128,):
        return False
    return abs(255 * wanted.scale[0] - _FRONT_END_RANGE) < 0.05 * _FRONT_END_RANGE


def _name_by_range(wanted: Wanted, by_shape: str) -> str:
    """The recipe that the range of a quantised input speaks for; "" where it says nothing."""
    if len(wanted.scale) != 1 or wanted.dtype != "int8":
        return ""
    if by_shape == _FRONT_END:
        return _FRONT_END if _is_front_end(wanted) else ""
    lowest = wanted.scale[0] * (-128 - wanted.zero_point[0])
    if by_shape == "mfcc":
        return "mfcc-tf" if lowest < _LOWEST_OF_TF else "mfcc"
    return ""


def _sizes_for(name: str, sizes: tuple[int, ...], wanted: Wanted, where: str) -> tuple[int, int]:
    """Frames and width of features of a shape."""
    if not _is_storable(wanted):
        raise _misfit(wanted, where, "holds neither floats nor a quantised range")
    if len(sizes) == 1 and sizes in _SHAPES:
        return _SHAPES[sizes][1:]
    is_first = name in RECIPES and RECIPES[name].bands_first
    if len(sizes) == 2:
        frames, width = reversed(sizes) if is_first else sizes
        if not (name in RECIPES and RECIPES[name].cosine and width > RECIPES[name].bands):
            return frames, width
    why = f"cannot take the features {name!r}, which are frames by bands"
    raise _misfit(wanted, where, why)


def _misfit(wanted: Wanted, where: str, why: str) -> InputError:
    count = prod(wanted.shape)
    return InputError(
        f"a sound does not fit input {wanted.name!r}",
        where=where,
        why=f"{wanted.dtype} {list(wanted.shape)}, {counted(count, 'element')}, {why}",
        fix=f"--features NAME, one of {', '.join(NAMES)}; or pass the features as .npy",
    )
