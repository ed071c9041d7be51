"""Sound files as inputs: one channel, resampled, cut or padded, or made into features."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.errors import InputError
from circlet.formats.arrays import Wanted, check_unpacked
from circlet.formats.features import (
    WAVEFORM,
    Chosen,
    check_computable,
    chosen,
    computed,
    seconds_used,
)
from circlet.formats.sound_files import Samples, read_sound, resampled, resampled_bytes
from circlet.limits import DEFAULT_LIMITS
from circlet.regular_files import open_regular

LOGGER = logging.getLogger(__name__)
_MARGIN_S = 0.1  # of sound behind what is used, so that resampling does not hear the end


@dataclass(frozen=True)
class SoundOptions:
    """How a sound becomes an input.

    Attributes:
        rate: Samples per second that the network was trained on.
        start_s: Seconds of the file to skip.
        features: A name of `circlet.formats.features.NAMES`, or "" for what the input's shape and
            range tell of.
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
    """A sound file as an input array, and a text that says what was done to it.

    A waveform becomes -1..1 for a float input and 16-bit steps for an int16 input.

    Raises:
        FileError: The file cannot be read.
        InputError: The input is no waveform and no features are known to have its shape, those
            asked for do not fit, or a package is needed that is not installed.
        LimitError: The sound takes more memory than `memory_bytes`.
    """
    open_regular(path, "a sound file").close()  # a file that is missing is the better reason
    choice = chosen(wanted, options.features, str(path))
    count = int(np.prod(wanted.shape))
    used_s = count / options.rate if choice.name == WAVEFORM else seconds_used(choice)
    if choice.name != WAVEFORM:
        check_computable(choice, options.rate, memory_bytes, path)
    samples, lasts_s = _samples_used(path, options, used_s, memory_bytes)
    length = f"{lasts_s:.2f} s"
    if choice.name != WAVEFORM:
        stored = _stored(computed(choice, samples, options.rate, wanted), wanted)
        return stored, f"{path} ({length}, {_told(choice, lasts_s - options.start_s, used_s)})"
    what = "cut" if len(samples) > count else "padded" if len(samples) < count else "taken"
    what = what if len(samples) else "nothing but silence, padded"
    array = _stored(fitted(samples, count), wanted).reshape(wanted.shape)
    note = f"{path} ({length} at {options.rate} Hz, {what} to {count} samples)"
    return array, note


def _samples_used(
    path: Path, options: SoundOptions, used_s: float, memory_bytes: int
) -> tuple[Samples, float]:
    """Samples from the start that is asked for, at the network's rate; the file's seconds."""
    needed_s = options.start_s + used_s + _MARGIN_S
    samples, rate, lasts_s = read_sound(path, needed_s, memory_bytes)
    check_unpacked(resampled_bytes(len(samples), rate, options.rate), memory_bytes, path)
    samples = resampled(samples, rate, options.rate, path)[int(options.start_s * options.rate) :]
    if options.start_s and not len(samples):
        what, why = "the sound is over before it starts", f"{options.start_s:g} s are skipped"
        raise InputError(what, where=str(path), why=why, fix="skip less with --start")
    if not samples.any():
        LOGGER.warning("%s: all that the network hears is silence", path)
    return samples, lasts_s


def _told(choice: Chosen, left_s: float, used_s: float) -> str:
    """The features that were computed, of how much, and what they were chosen by."""
    extent = f"of {used_s:.2f} s" + (", padded" if left_s < used_s - 0.005 else "")
    by = f", chosen by {choice.why}: --features NAME for others" if choice.why else ""
    return f"features {choice.name} [{choice.frames}, {choice.width}] {extent}{by}"


def fitted(samples: Samples, count: int) -> Samples:
    """The first `count` samples, followed by silence where there are fewer."""
    return np.pad(samples[:count], (0, max(0, count - len(samples))))


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
