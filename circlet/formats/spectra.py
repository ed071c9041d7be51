"""Spectrograms, mel bands and cepstral coefficients, by recipes that say all there is to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]
Change = Callable[[Real], Real]


def hann(length: int) -> Real:
    """The periodic window that TensorFlow, librosa and PyTorch call Hann."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length))


def hamming(length: int) -> Real:
    """The symmetric Hamming window."""
    return np.hamming(length)


def povey(length: int) -> Real:
    """Kaldi's window: a symmetric Hann window to the power of 0.85."""
    return np.asarray(np.hanning(length) ** 0.85)


@dataclass(frozen=True)
class Mel:
    """Bands of frequencies that are even on the mel scale.

    Attributes:
        low, high: Hertz; a `high` of 0 is half the rate.
        slaney: The scale that is straight below 1000 Hz, with triangles over hertz of equal area,
            as librosa makes them; else HTK's scale, with triangles over mel of equal height.
        skips_near: Leave out bins up to one and a half bins above `low`, as TensorFlow's kernel
            `Mfcc` and its microphone front end do; else the first bin alone.
    """

    low: float
    high: float = 0.0
    slaney: bool = False
    skips_near: bool = False


@dataclass(frozen=True)
class Recipe:
    """How a sound becomes features.

    Attributes:
        about: Where it comes from, in a line.
        timings: Milliseconds of a frame and from frame to frame, by the number of frames; that of 0
            is for all others.
        compress: What becomes of the energies of bands, mostly a logarithm.
        mel: The bands; None for the spectrum itself.
        cosine: Whether a cosine transform over `bands` logarithms follows.
        bands: Mel bands ahead of a cosine transform.
        power: 1 for magnitudes, 2 for energies.
        fft: Points of the transform; 0 for the next power of two, or what the bins ask for.
        window: Weights of a frame by its length.
        prepare: What is done to the samples, and `each` to [frames, samples].
        centred: Whether the first frame is around the first sample.
        bands_first: Whether the network wants [bands, frames].
    """

    about: str
    timings: Mapping[int, tuple[float, float]]
    compress: Change
    mel: Mel | None = None
    cosine: bool = False
    bands: int = 40
    power: int = 1
    fft: int = 0
    window: Callable[[int], Real] = hann
    prepare: Change = field(default=np.asarray)
    each: Change = field(default=np.asarray)
    centred: bool = False
    bands_first: bool = False


def features_of(recipe: Recipe, samples: Real, rate: int, frames: int, width: int) -> Real:
    """[frames, width] of features; a sound that is too short is followed by silence."""
    length, hop = (round(ms * rate / 1000) for ms in timing(recipe.timings, frames))
    half = length // 2 if recipe.centred else 0
    needed = max(1, length + (frames - 1) * hop - half)
    sound = recipe.prepare(np.pad(samples[:needed], (0, max(0, needed - len(samples)))))
    if half:
        sound = np.pad(sound, (half, 0), mode="reflect")
    cut = np.lib.stride_tricks.sliding_window_view(sound, length)[::hop][:frames]
    size = recipe.fft or (1 << (length - 1).bit_length() if recipe.mel else 2 * (width - 1))
    spectrum = np.abs(np.fft.rfft(recipe.each(cut) * recipe.window(length), size)) ** recipe.power
    if recipe.mel is None:
        return recipe.compress(spectrum)
    bands = recipe.bands if recipe.cosine else width
    found = recipe.compress(spectrum @ mel_bands(recipe.mel, bands, spectrum.shape[1], rate))
    return found @ _cosines(bands, width) if recipe.cosine else found


def timing(timings: Mapping[int, tuple[float, float]], frames: int) -> tuple[float, float]:
    """Milliseconds of a frame, and from frame to frame."""
    return timings.get(frames, timings[0])


def mel_bands(mel: Mel, bands: int, bins: int, rate: int) -> Real:
    """[bins, bands] of weights."""
    hertz = np.linspace(0.0, rate / 2, bins)
    ends = np.array([mel.low, mel.high or rate / 2])
    low, high = (_to_slaney if mel.slaney else _to_htk)(ends)
    edges = np.linspace(low, high, bands + 2)
    if mel.slaney:
        edges = _from_slaney(edges)
        return _triangles(hertz, edges) * (2 / (edges[2:] - edges[:-2]))
    made = _triangles(_to_htk(hertz), edges)
    made[: int(1.5 + mel.low / hertz[1]) if mel.skips_near else 1] = 0
    return made


def _triangles(positions: Real, edges: Real) -> Real:
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (positions[:, None] - low) / (centre - low)
    falling = (high - positions[:, None]) / (high - centre)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)))


def _to_htk(hertz: Real) -> Real:
    return np.asarray(1127.0 * np.log1p(hertz / 700.0))


_STRAIGHT_HZ, _PER_HZ = 1000.0, 3 / 200
_STEP = np.log(6.4) / 27.0


def _to_slaney(hertz: Real) -> Real:
    bent = _STRAIGHT_HZ * _PER_HZ + np.log(np.maximum(hertz, 1.0) / _STRAIGHT_HZ) / _STEP
    return np.where(hertz < _STRAIGHT_HZ, hertz * _PER_HZ, bent)


def _from_slaney(mels: Real) -> Real:
    bent = _STRAIGHT_HZ * np.exp(_STEP * (mels - _STRAIGHT_HZ * _PER_HZ))
    return np.where(mels < _STRAIGHT_HZ * _PER_HZ, mels / _PER_HZ, bent)


def _cosines(bands: int, coefficients: int) -> Real:
    """[bands, coefficients] of the second cosine transform, scaled by sqrt(2 / bands)."""
    angles = np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(coefficients))
    return np.asarray(np.cos(angles) * np.sqrt(2.0 / bands))
