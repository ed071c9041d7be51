"""Mel-frequency cepstral coefficients as small keyword spotters are trained on them.

Frames of 30 ms every 20 ms, a Hann window, magnitudes, 40 mel bands of 20 to 4000 Hz, logarithm,
cosine transform: the recipe of TensorFlow's `signal` module that the MLPerf Tiny benchmark uses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]

_FRAME_S, _HOP_S = 0.030, 0.020
_BANDS, _LOWEST_HZ, _HIGHEST_HZ = 40, 20.0, 4000.0
_FLOOR = 1e-6


def mfcc(samples: Real, rate: int, frames: int, coefficients: int) -> Real:
    """[frames, coefficients] of a sound, scaled to a peak of 1 and cut or padded as needed."""
    length, hop = round(_FRAME_S * rate), round(_HOP_S * rate)
    needed = length + (frames - 1) * hop
    sound = np.pad(samples[:needed], (0, max(0, needed - len(samples))))
    sound = sound / max(float(np.abs(sound).max(initial=0.0)), _FLOOR)
    cut = np.lib.stride_tricks.sliding_window_view(sound, length)[::hop][:frames]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    size = 1 << (length - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(cut * window, size))
    bands = np.log(spectrum @ _mel_bands(size // 2 + 1, rate) + _FLOOR)
    return np.asarray(bands @ _cosines(coefficients))


def _mel(frequency: Real) -> Real:
    return np.asarray(1127.0 * np.log1p(frequency / 700.0))


def _mel_bands(bins: int, rate: int) -> Real:
    """[bins, bands] of triangles that are even on the mel scale; the first bin counts nowhere."""
    positions = _mel(np.linspace(0.0, rate / 2, bins))[1:, None]
    ends = _mel(np.array([_LOWEST_HZ, _HIGHEST_HZ]))
    edges = np.linspace(ends[0], ends[1], _BANDS + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (positions - low) / (centre - low)
    falling = (high - positions) / (high - centre)
    return np.pad(np.maximum(0.0, np.minimum(rising, falling)), ((1, 0), (0, 0)))


def _cosines(coefficients: int) -> Real:
    """[bands, coefficients] of the second cosine transform."""
    angles = np.pi / _BANDS * np.outer(np.arange(_BANDS) + 0.5, np.arange(coefficients))
    return np.asarray(2 * np.cos(angles) / np.sqrt(2.0 * _BANDS))
