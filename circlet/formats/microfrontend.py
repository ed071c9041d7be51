"""The front end of TensorFlow Lite Micro's speech models, in its integers.

A Hann window; energies in mel bands; their square roots; the noise of each band subtracted; a gain
that evens out loudness (PCAN); logarithms. Sums, shifts and roundings are those of the C library;
the Fourier transform is rounded once and not after each of its stages, and the gain is computed and
not interpolated, which moves a feature by a step now and then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.formats.spectra import Mel, Real, mel_bands

Whole = npt.NDArray[np.int64]

STEPS_PER_UNIT = 25.6
"""What the library's numbers are divided by to be the features that networks are trained on."""

_BITS = 12  # of windows, of weights of bands, and of signal over noise
_BANDS = Mel(125.0, 7500.0, skips_near=True)
_NOISE_BITS, _SHARE_BITS = 10, 14
_SMOOTHING, _FLOOR = (0.025, 0.06), 0.05
_GAIN_BITS, _GAIN_STRENGTH, _GAIN_OFFSET, _MOST_GAIN = 21, 0.95, 80.0, 0x7FFF
_OUTPUT_BITS, _LOG_BITS = 6, 6


def microfrontend(
    samples: Real, rate: int, frames: int, channels: int, frame_ms: float, hop_ms: float
) -> Real:
    """[frames, channels] of a sound in -1..1."""
    length, hop = round(frame_ms * rate / 1000), round(hop_ms * rate / 1000)
    needed = length + (frames - 1) * hop
    sound = np.clip(np.rint(samples[:needed] * (1 << 15)), -(1 << 15), (1 << 15) - 1)
    sound = np.pad(sound.astype(np.int64), (0, max(0, needed - len(sound))))
    cut = np.lib.stride_tricks.sliding_window_view(sound, length)[::hop][:frames]
    size = 1 << (length - 1).bit_length()
    weights = np.rint(mel_bands(_BANDS, channels, size // 2 + 1, rate) * (1 << _BITS))
    correction = size.bit_length() - 1 - _BITS // 2
    noise = np.zeros(channels, np.int64)
    found = []
    for signal in _roots(cut, size, weights):
        signal, noise = _quietened(signal, noise)
        louder = _evened(signal, noise, correction) << max(correction, 0)
        logs = np.rint(np.log(np.maximum(louder, 1)) * (1 << _LOG_BITS))
        found.append(logs / STEPS_PER_UNIT)
    return np.array(found)


def _roots(cut: Whole, size: int, weights: Real) -> Whole:
    """[frames, channels] of the square roots of bands' energies."""
    length = cut.shape[1]
    angles = 2 * np.pi / length * (np.arange(length) + 0.5)
    window = np.floor((0.5 - 0.5 * np.cos(angles)) * (1 << _BITS) + 0.5).astype(np.int64)
    windowed = (cut * window) >> _BITS
    largest = np.abs(windowed).max(axis=1)
    shifts = 15 - np.array([int(one).bit_length() for one in largest])[:, None]
    spectrum = np.fft.rfft(windowed << np.maximum(shifts, 0), size) / size
    energies = np.rint(spectrum.real) ** 2 + np.rint(spectrum.imag) ** 2
    return np.rint(np.sqrt(energies @ weights)).astype(np.int64) >> np.maximum(shifts, 0)


def _quietened(signal: Whole, noise: Whole) -> tuple[Whole, Whole]:
    """The signal less the noise, but some of it in any case, and the noise as now estimated."""
    one = 1 << _SHARE_BITS
    even = np.arange(len(signal)) % 2 == 0
    share = np.where(even, *(int(part * one) for part in _SMOOTHING))
    scaled = signal << _NOISE_BITS
    noise = (scaled * share + noise * (one - share)) >> _SHARE_BITS
    left = (scaled - np.minimum(noise, scaled)) >> _NOISE_BITS
    return np.maximum(left, (signal * int(_FLOOR * one)) >> _SHARE_BITS), noise


def _evened(signal: Whole, noise: Whole, correction: int) -> Whole:
    """The signal over what is usual in its band, its small values squared."""
    level = noise / (1 << (_NOISE_BITS - correction))
    gain = np.floor((1 << _GAIN_BITS) * (level + _GAIN_OFFSET) ** -_GAIN_STRENGTH + 0.5)
    ratio = signal * np.minimum(gain, _MOST_GAIN).astype(np.int64)
    ratio >>= _GAIN_BITS - correction - _BITS
    small = (ratio * ratio) >> (2 + 2 * _BITS - _OUTPUT_BITS)
    large = (ratio >> (_BITS - _OUTPUT_BITS)) - (1 << _OUTPUT_BITS)
    return np.where(ratio < 2 << _BITS, small, large)
