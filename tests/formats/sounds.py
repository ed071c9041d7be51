"""Sound files for tests."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

RATE = 16000


def tone(hertz: float, seconds: float = 1.0, rate: int = RATE) -> np.ndarray:
    """A sine."""
    return np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def write(path: Path, samples: np.ndarray, rate: int = RATE, width: int = 2) -> Path:
    """A .wav of real samples [frames] or [frames, channels]."""
    steps = np.rint(np.atleast_2d(samples.T).T * (1 << (8 * width - 1))).astype(np.int64)
    stored = steps + 128 if width == 1 else steps
    raw = stored.astype("<i8").tobytes()
    data = b"".join(raw[i : i + width] for i in range(0, len(raw), 8))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(steps.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path
