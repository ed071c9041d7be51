"""Sound files as arrays: one channel, resampled, cut or padded to what a network wants."""

from __future__ import annotations

import logging
import wave
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlet.errors import FileError, InputError
from circlet.formats.arrays import Wanted, check_unpacked
from circlet.formats.mfcc import mfcc
from circlet.limits import DEFAULT_LIMITS
from circlet.regular_files import open_regular

LOGGER = logging.getLogger(__name__)
Samples = npt.NDArray[np.float64]

_SAMPLE_BYTES = 20  # widened, and as floats before and after they are scaled
_ZERO_CROSSINGS = 16
_BETA = 8.6
_CHUNK_OUTPUTS, _CHUNK_TAPS = 1 << 14, 1 << 22


@dataclass(frozen=True)
class SoundOptions:
    """How a sound becomes an input.

    Attributes:
        rate: Samples per second that the network was trained on.
        start_s: Seconds of the file to skip.
        features: "" to hand over the waveform, "mfcc" for cepstral coefficients.
    """

    rate: int = 16000
    start_s: float = 0.0
    features: str = ""


DEFAULT_SOUND = SoundOptions()


def read_sound_input(
    path: Path,
    wanted: Wanted,
    options: SoundOptions = DEFAULT_SOUND,
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes,
) -> tuple[np.ndarray, str]:
    """A .wav file as an input array, and a text that says what was done to it.

    A waveform becomes -1..1 for a float input and 16-bit steps for an int16 input.

    Raises:
        FileError: The file cannot be read.
        InputError: The input is no waveform and no features were asked for, or they do not fit.
        LimitError: The sound takes more memory than `memory_bytes`.
    """
    samples, rate = read_wav(path, memory_bytes)
    check_unpacked(_resampled_bytes(len(samples), rate, options.rate), memory_bytes, path)
    samples = resampled(samples, rate, options.rate)[int(options.start_s * options.rate) :]
    if options.start_s and not len(samples):
        what, why = "the sound is over before it starts", f"{options.start_s:g} s are skipped"
        raise InputError(what, where=str(path), why=why, fix="skip less with --start")
    if not samples.any():
        LOGGER.warning("%s: all that the network hears is silence", path)
    seconds = f"{len(samples) / options.rate:.2f} s at {options.rate} Hz"
    if options.features:
        return _features(samples, wanted, options, path), f"{path} ({seconds}, {options.features})"
    _check_waveform(wanted, path)
    count = int(np.prod(wanted.shape))
    what = "cut" if len(samples) > count else "padded" if len(samples) < count else "taken"
    array = _stored(fitted(samples, count), wanted).reshape(wanted.shape)
    return array, f"{path} ({seconds}, {what} to {count} samples)"


def read_wav(path: Path, memory_bytes: int = DEFAULT_LIMITS.memory_bytes) -> tuple[Samples, int]:
    """Samples of -1..1, the channels' mean, and their rate.

    Raises:
        FileError: It is no PCM .wav file.
        LimitError: It takes more memory than `memory_bytes`.
    """
    try:
        with open_regular(path, "a sound file") as raw, wave.open(raw, "rb") as file:
            count, channels, width = file.getnframes(), file.getnchannels(), file.getsampwidth()
            stored = min(count * channels * width, path.stat().st_size)
            check_unpacked(stored + stored // width * _SAMPLE_BYTES, memory_bytes, path)
            rate, data = file.getframerate(), file.readframes(count)
    except (OSError, EOFError, wave.Error) as error:
        fix = "convert it to PCM .wav"
        raise FileError.unreadable("a sound file", path, error, fix) from error
    if not 1 <= width <= 4 or rate < 1 or channels < 1:
        raise FileError("a sound file cannot be read", where=str(path), why=f"{8 * width} bits")
    whole = len(data) // (width * channels) * width * channels
    return _samples(data[:whole], width).reshape(-1, channels).mean(axis=1), rate


def _samples(data: bytes, width: int) -> Samples:
    """PCM of 8 (unsigned), 16, 24 or 32 bits as -1..1."""
    raw = np.frombuffer(data, np.uint8).reshape(-1, width)
    if width == 1:
        return (raw[:, 0].astype(np.float64) - 128) / 128
    widened = np.zeros((len(raw), 4), np.uint8)
    widened[:, 4 - width :] = raw
    return widened.view("<i4")[:, 0].astype(np.float64) / (1 << 31)


def resampled(samples: Samples, rate: int, wanted_rate: int) -> Samples:
    """Samples at another rate, by one windowed-sinc filter per phase of the ratio of rates."""
    if rate == wanted_rate or not len(samples):
        return samples
    common = gcd(rate, wanted_rate)
    up, down = wanted_rate // common, rate // common
    cutoff = min(1.0, up / down)
    half = int(np.ceil(_ZERO_CROSSINGS / cutoff))
    padded = np.pad(samples, (half, half + 1))
    steps = np.arange(-(-len(samples) * up // down), dtype=np.int64) * down
    taps = np.arange(1 - half, half + 1)
    parts = []
    chunk = min(_CHUNK_OUTPUTS, max(1, _CHUNK_TAPS // len(taps)))
    for first in range(0, len(steps), chunk):
        whole, phase = np.divmod(steps[first : first + chunk], up)
        distance = taps[None, :] - phase[:, None] / up
        window = np.i0(_BETA * np.sqrt(np.clip(1 - (distance / half) ** 2, 0, 1))) / np.i0(_BETA)
        near = padded[whole[:, None] + taps[None, :] + half]
        parts.append((near * np.sinc(distance * cutoff) * window).sum(axis=1) * cutoff)
    return np.concatenate(parts)


def _resampled_bytes(count: int, rate: int, wanted_rate: int) -> int:
    """What `resampled` takes: samples and silence around, places and values of its results."""
    if rate == wanted_rate:
        return 0
    silence = 2 * _ZERO_CROSSINGS * max(1, rate // wanted_rate)
    return 8 * (count + 4 * silence + 3 * (count * wanted_rate // rate))


def fitted(samples: Samples, count: int) -> Samples:
    """The first `count` samples, followed by silence where there are fewer."""
    return np.pad(samples[:count], (0, max(0, count - len(samples))))


def _check_waveform(wanted: Wanted, path: Path) -> None:
    long = [size for size in wanted.shape if size > 1]
    if len(long) <= 1 and wanted.dtype in ("float32", "float16", "int16"):
        return
    raise InputError(
        f"a sound does not fit input {wanted.name!r}",
        where=str(path),
        why=f"{wanted.dtype} {list(wanted.shape)} holds features of a sound, not its waveform",
        fix="--features mfcc computes cepstral coefficients; pass other features as .npy",
    )


def _stored(real: np.ndarray, wanted: Wanted) -> np.ndarray:
    """Real numbers in the type of the input: quantised where it has a scale."""
    dtype = np.dtype(wanted.dtype)
    if dtype.kind == "f":
        return np.asarray(real.astype(dtype))
    limits = np.iinfo(dtype)
    scale, zero = 1 / (limits.max + 1), 0
    if len(wanted.scale) == 1:
        scale, zero = wanted.scale[0], wanted.zero_point[0]
    steps = np.clip(np.rint(real / scale) + zero, limits.min, limits.max)
    return np.asarray(steps.astype(dtype))


def _features(samples: Samples, wanted: Wanted, options: SoundOptions, path: Path) -> np.ndarray:
    sizes = [size for size in wanted.shape if size > 1]
    storable = len(wanted.scale) == 1 or "float" in wanted.dtype
    if options.features != "mfcc" or len(sizes) != 2 or not storable:
        raise InputError(
            f"features {options.features!r} do not fit input {wanted.name!r}",
            where=str(path),
            why=f"mfcc needs [frames, coefficients], the network wants {list(wanted.shape)}",
        )
    frames, coefficients = sizes
    found = mfcc(samples, options.rate, frames, coefficients)
    return _stored(found, wanted).reshape(wanted.shape)
