"""Samples of sound files: PCM .wav by Python's own module, everything else by libsndfile."""

from __future__ import annotations

import os
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from circlet.errors import CircletError, FileError, InputError
from circlet.formats.arrays import check_unpacked
from circlet.limits import DEFAULT_LIMITS
from circlet.regular_files import open_regular
from circlet.words import counted

Samples = npt.NDArray[np.float64]

_SAMPLE_BYTES = 20  # widened, and as floats before and after they are scaled
_MONO_BYTES = 24  # a block, its sum, and all blocks joined
_BLOCK_VALUES = 1 << 18
_MOST_CHANNELS = 64
_RATES = range(1, 1_000_001)
_STDERR = 2
_NO_LIBRARY = "pip install 'circlet[audio]' for flac, ogg, mp3 and more; PCM .wav needs nothing"


def read_sound(
    path: Path, seconds: float | None = None, memory_bytes: int = DEFAULT_LIMITS.memory_bytes
) -> tuple[Samples, int, float]:
    """Samples of -1..1, the channels' mean, their rate, and the seconds that the file lasts.

    Args:
        path: The file.
        seconds: How much of it is needed; nothing behind that is unpacked.
        memory_bytes: What reading may take.

    Raises:
        FileError: It is no sound file that can be read.
        InputError: To read it takes a package that is not installed.
        LimitError: It takes more memory than `memory_bytes`.
    """
    try:
        with open_regular(path, "a sound file") as raw:
            if path.suffix.lower() == ".wav":
                try:
                    return _read_pcm(raw, path, seconds, memory_bytes)
                except wave.Error as error:
                    if _is_broken(error):
                        raise
                    raw.seek(0)
            return _read_with_library(raw, path, seconds, memory_bytes)
    except CircletError:
        raise
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        fix = "give a sound that other players play, such as PCM .wav"
        told = getattr(error, "error_string", None)
        if told is None:
            raise FileError.unreadable("a sound file", path, error, fix) from error
        what, why = "a sound file cannot be read", str(told)
        raise FileError(what, where=str(path), why=why, fix=fix) from error


def _is_broken(error: wave.Error) -> bool:
    """Whether the file is no .wav at all, rather than one of another coding than PCM."""
    return "unknown format" not in str(error)


def _wanted_frames(count: int, rate: int, seconds: float | None) -> int:
    return count if seconds is None else min(count, int(seconds * rate) + 1)


def _check_form(rate: int, channels: int, path: Path) -> None:
    if rate in _RATES and 1 <= channels <= _MOST_CHANNELS:
        return
    why = f"{counted(channels, 'channel')} of {rate} samples a second"
    fix = f"give a sound of at most {_MOST_CHANNELS} channels and {_RATES[-1]} samples a second"
    raise FileError("a sound file cannot be read", where=str(path), why=why, fix=fix)


def _read_pcm(
    raw: BinaryIO, path: Path, seconds: float | None, memory_bytes: int
) -> tuple[Samples, int, float]:
    with wave.open(raw, "rb") as file:
        count, channels, width = file.getnframes(), file.getnchannels(), file.getsampwidth()
        rate = file.getframerate()
        if not 1 <= width <= 4:
            raise FileError("a sound file cannot be read", where=str(path), why=f"{8 * width} bits")
        _check_form(rate, channels, path)
        wanted = _wanted_frames(count, rate, seconds)
        stored = min(wanted * channels * width, path.stat().st_size)
        check_unpacked(stored + stored // width * _SAMPLE_BYTES, memory_bytes, path)
        data = file.readframes(wanted)
    whole = len(data) // (width * channels) * width * channels
    mono = _samples(data[:whole], width).reshape(-1, channels).mean(axis=1)
    return mono, rate, max(count, len(mono)) / rate


def _samples(data: bytes, width: int) -> Samples:
    """PCM of 8 (unsigned), 16, 24 or 32 bits as -1..1."""
    raw = np.frombuffer(data, np.uint8).reshape(-1, width)
    if width == 1:
        return (raw[:, 0].astype(np.float64) - 128) / 128
    widened = np.zeros((len(raw), 4), np.uint8)
    widened[:, 4 - width :] = raw
    return widened.view("<i4")[:, 0].astype(np.float64) / (1 << 31)


def _read_with_library(
    raw: BinaryIO, path: Path, seconds: float | None, memory_bytes: int
) -> tuple[Samples, int, float]:
    """Block by block: what a header says of a compressed file's length may be far from true."""
    try:
        import soundfile
    except ImportError as error:
        what = "this kind of sound needs soundfile"
        raise InputError(what, where=str(path), fix=_NO_LIBRARY) from error
    with _quiet_decoders(), soundfile.SoundFile(raw) as file:
        rate, channels, count = file.samplerate, file.channels, file.frames
        _check_form(rate, channels, path)
        wanted = _wanted_frames(count, rate, seconds)
        check_unpacked(wanted * _MONO_BYTES, memory_bytes, path)
        blocks, left = [], wanted
        while left > 0:
            block = file.read(min(left, _BLOCK_VALUES // channels), "float64", always_2d=True)
            if not len(block):
                break
            blocks.append(block.mean(axis=1))
            left -= len(block)
    mono = np.concatenate(blocks) if blocks else np.zeros(0)
    if not np.isfinite(mono).all():
        raise FileError(
            "a sound file cannot be read", where=str(path), why="samples are no numbers"
        )
    return mono, rate, count / rate


@contextmanager
def _quiet_decoders() -> Iterator[None]:
    """Have C libraries say nothing: that for mp3 writes notes to the process' standard error."""
    try:
        usual = os.dup(_STDERR)
    except OSError:  # it is closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, _STDERR)
        yield
    finally:
        os.dup2(usual, _STDERR)
        os.close(usual)
        os.close(nowhere)


def resampled(samples: Samples, rate: int, wanted_rate: int, path: Path) -> Samples:
    """Samples at another rate.

    Raises:
        InputError: The rates differ, and soxr is not installed.
    """
    if rate == wanted_rate or not len(samples):
        return samples
    try:
        import soxr
    except ImportError as error:
        raise InputError(
            "a sound needs another rate, and that needs soxr",
            where=str(path),
            why=f"it has {rate} samples a second, the network wants {wanted_rate}",
            fix="pip install 'circlet[audio]', or give it at that rate",
        ) from error
    return np.asarray(soxr.resample(samples, rate, wanted_rate, "VHQ"), np.float64)


def resampled_bytes(count: int, rate: int, wanted_rate: int) -> int:
    """What `resampled` takes: the samples, and its results twice while they are joined."""
    return 0 if rate == wanted_rate else 8 * (count + 2 * (count * wanted_rate // rate))
