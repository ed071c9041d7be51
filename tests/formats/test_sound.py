"""Sounds of every kind are read within bounds, at the rate that is wanted, or end in a code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError, FileError, InputError, LimitError
from circlet.formats.arrays import Wanted
from circlet.formats.sound import SoundOptions, read_sound_input
from circlet.formats.sound_files import read_sound, resampled
from tests.formats.sounds import RATE, tone, write

FLOAT = Wanted("waveform", "float32", (1, 8))
soundfile = pytest.importorskip("soundfile", reason="the extra [audio] is not installed")


@pytest.mark.smoke
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_any_width_are_read(tmp_path: Path, width: int) -> None:
    real = np.array([0, 0.5, -0.5, -1, 0.25])
    samples, rate, _ = read_sound(write(tmp_path / "x.wav", real, 8000, width))
    assert rate == 8000
    np.testing.assert_array_equal(samples, real)


def test_channels_are_averaged(tmp_path: Path) -> None:
    both = np.array([[0.5, 0.25], [-1, 0.5]])
    np.testing.assert_array_equal(read_sound(write(tmp_path / "x.wav", both))[0], [0.375, -0.25])
    soundfile.write(tmp_path / "x.flac", both, RATE)
    np.testing.assert_array_equal(read_sound(tmp_path / "x.flac")[0], [0.375, -0.25])


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("x.flac", "PCM_24", 1e-6),
        ("x.ogg", "VORBIS", 0.02),
        ("x.mp3", "MPEG_LAYER_III", 0.02),
        ("x.wav", "FLOAT", 1e-6),
        ("x.wav", "ULAW", 0.02),
        ("x.aiff", "PCM_16", 1e-4),
    ],
)
def test_files_of_other_kinds_hold_the_same_sound(
    tmp_path: Path, name: str, subtype: str, tolerance: float
) -> None:
    sound = 0.5 * tone(440)
    soundfile.write(tmp_path / name, sound, RATE, subtype=subtype)
    samples, rate, seconds = read_sound(tmp_path / name)
    assert rate == RATE and seconds == pytest.approx(1.0, abs=0.1)
    assert np.abs(samples[2000:14000] - sound[2000:14000]).max() < tolerance


def test_no_more_is_unpacked_than_is_needed(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.flac", np.zeros(RATE * 60), RATE)
    write(tmp_path / "long.wav", np.zeros(RATE * 60))
    for name in ("long.flac", "long.wav"):
        samples, _, seconds = read_sound(tmp_path / name, seconds=0.5, memory_bytes=400_000)
        assert seconds == 60 and len(samples) == RATE // 2 + 1
        with pytest.raises(LimitError, match="unpacks to"):
            read_sound(tmp_path / name, memory_bytes=400_000)


def test_without_the_library_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile.write(tmp_path / "x.flac", np.zeros(8), RATE)
    slow = write(tmp_path / "slow.wav", np.zeros(8), 8000)
    for module in ("soundfile", "soxr"):
        monkeypatch.setitem(sys.modules, module, None)
    for path in (tmp_path / "x.flac", slow):
        with pytest.raises(InputError, match=r"pip install 'circlet\[audio\]'"):
            read_sound_input(path, FLOAT)
    assert read_sound_input(write(tmp_path / "x.wav", np.zeros(8)), FLOAT)[0].shape == (1, 8)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_resampling_keeps_a_tone(rate: int) -> None:
    found = resampled(tone(440, rate=rate), rate, RATE, Path("x"))
    assert len(found) == RATE
    assert np.abs(found - tone(440))[400:-400].max() < 1e-3


def test_resampling_removes_what_the_lower_rate_cannot_hold() -> None:
    found = resampled(tone(15000, rate=48000), 48000, RATE, Path("x"))
    assert np.abs(found)[400:-400].max() < 1e-3


def test_what_is_cut_off_leaves_no_trace(tmp_path: Path) -> None:
    sound = 0.5 * tone(440, 2.0, 44100)
    wanted = Wanted("w", "float32", (1, RATE))
    array, note = read_sound_input(write(tmp_path / "x.wav", sound, 44100), wanted)
    assert "2.00 s at 16000 Hz, cut to 16000 samples" in note
    assert np.abs(array[0] - 0.5 * tone(440))[400:].max() < 1e-3


@pytest.mark.parametrize("name", ["x.wav", "x.flac", "x.mp3", "x.ogg"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RIFF",
        b"RIFF\x24\0\0\0WAVEfmt ",
        b"\0" * 64,
        b"fLaC\0\0\0\x22" + b"\xff" * 60,
        b"OggS",
    ],
)
def test_files_that_are_no_sound_end_in_a_code(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError):
        read_sound(path)


@pytest.mark.parametrize("name", ["x.flac", "x.ogg", "x.mp3"])
def test_damaged_files_are_read_in_part_or_end_in_a_code(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / name, 0.1 * tone(440), RATE)
    whole = (tmp_path / name).read_bytes()
    generator = np.random.default_rng(0)
    capfd.readouterr()
    for _ in range(40):
        broken = bytearray(whole[: generator.integers(1, len(whole) + 1)])
        for at in generator.integers(0, len(broken), 8):
            broken[at] = generator.integers(256)
        (tmp_path / name).write_bytes(broken)
        try:
            array, _ = read_sound_input(tmp_path / name, FLOAT)
        except CircletError:
            continue
        assert array.shape == (1, 8) and np.isfinite(array).all()
    assert capfd.readouterr() == ("", "")


def test_a_sound_that_grows_too_much_is_refused_before_it_does(tmp_path: Path) -> None:
    path = write(tmp_path / "slow.wav", np.zeros(20_000), rate=1)
    wanted = Wanted("w", "float32", (1, 1 << 28))
    with pytest.raises(LimitError, match="unpacks to"):
        read_sound_input(path, wanted, SoundOptions(rate=1 << 20))


def test_a_sound_is_refused_where_its_samples_take_too_much(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", np.zeros(1000))
    with pytest.raises(LimitError, match="22000 bytes, the limit is 21999"):
        read_sound(path, memory_bytes=21_999)
    assert len(read_sound(path, memory_bytes=22_000)[0]) == 1000


def test_more_channels_than_people_have_ears_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="65 channels"):
        read_sound(write(tmp_path / "x.wav", np.zeros((4, 65))))
