"""`circlet run` on sounds."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import FileError, InputError, LimitError
from circlet.formats import dumps
from circlet.formats.arrays import Wanted
from circlet.formats.mfcc import mfcc
from circlet.formats.sound import SoundOptions, read_sound_input, read_wav, resampled
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json

RATE = 16000
FLOAT = Wanted("waveform", "float32", (1, 8))


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


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_any_width_are_read(tmp_path: Path, width: int) -> None:
    real = np.array([0, 0.5, -0.5, -1, 0.25])
    samples, rate = read_wav(write(tmp_path / "x.wav", real, 8000, width))
    assert rate == 8000
    np.testing.assert_array_equal(samples, real)


def test_channels_are_averaged(tmp_path: Path) -> None:
    both = np.array([[0.5, 0.25], [-1, 0.5]])
    samples, _ = read_wav(write(tmp_path / "x.wav", both))
    np.testing.assert_array_equal(samples, [0.375, -0.25])


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_resampling_keeps_a_tone(rate: int) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    found = resampled(tone, rate, RATE)
    assert len(found) == RATE
    expected = np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    assert np.abs(found - expected)[200:-200].max() < 1e-3


def test_resampling_removes_what_the_lower_rate_cannot_hold() -> None:
    tone = np.sin(2 * np.pi * 15000 * np.arange(48000) / 48000)
    assert np.abs(resampled(tone, 48000, RATE))[200:-200].max() < 1e-3


def test_short_sounds_are_padded_and_long_ones_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", np.full(5, 0.5))
    array, note = read_sound_input(path, FLOAT)
    assert array.tolist() == [[0.5] * 5 + [0] * 3]
    assert "padded to 8 samples" in note
    path = write(tmp_path / "y.wav", np.arange(16) / 16)
    array, note = read_sound_input(path, FLOAT, SoundOptions(start_s=4 / RATE))
    np.testing.assert_array_equal(array[0], np.arange(4, 12) / 16)
    assert "cut to 8 samples" in note
    with pytest.raises(InputError, match="over before it starts"):
        read_sound_input(path, FLOAT, SoundOptions(start_s=100))


def test_16_bit_inputs_get_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", np.array([0.5, -1]))
    array, _ = read_sound_input(path, Wanted("w", "int16", (2, 1)))
    assert array.tolist() == [[1 << 14], [-(1 << 15)]]


@pytest.mark.parametrize(
    "wanted",
    [Wanted("f", "int8", (1, 1960), (0.1,), (0,)), Wanted("f", "float32", (1, 49, 10, 1))],
)
def test_inputs_of_features_are_not_fed_with_waveforms(tmp_path: Path, wanted: Wanted) -> None:
    with pytest.raises(InputError, match="--features mfcc"):
        read_sound_input(write(tmp_path / "x.wav", np.zeros(8)), wanted)


def test_features_need_frames_and_coefficients(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", np.zeros(8))
    with pytest.raises(InputError, match=r"\[frames, coefficients\]"):
        read_sound_input(path, FLOAT, SoundOptions(features="mfcc"))


def test_a_tone_stands_out_in_its_band() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE)
    found = mfcc(tone, RATE, 49, 10)
    assert found.shape == (49, 10)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), atol=1e-6)
    np.testing.assert_allclose(found, mfcc(tone / 7, RATE, 49, 10), atol=1e-9)
    assert np.abs(found - mfcc(np.zeros(RATE), RATE, 49, 10)).max() > 1


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\x24\0\0\0WAVEfmt ", b"\0" * 64])
def test_files_that_are_no_wav_end_in_a_code(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(content)
    with pytest.raises(FileError):
        read_wav(path)


def test_run_takes_a_wav(tmp_path: Path) -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("waveform", DType.FLOAT32, (1, 4))], name="y"))
    model = tmp_path / "model.tflite"
    model.write_bytes(dumps(b.model(), "tflite"))
    path = write(tmp_path / "x.wav", np.array([0.5, -0.5, 0.25, 1 / 128]))
    report = as_json("run", model, "--input", path, "--output", tmp_path / "out.npz")
    assert "taken to 4 samples" in report["inputs"][0]
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], [[0.5, 0, 0.25, 1 / 128]])


@pytest.mark.parametrize(("word", "best"), [("yes", 9), ("silence", 10)])
def test_a_spoken_word_is_spotted(word: str, best: int) -> None:
    model = corpora.corpus("models/kws_dscnn_int8.tflite")
    sound = corpora.corpus(f"data/{word}_1000ms.wav")
    report = as_json("run", model, "--input", sound, "--features", "mfcc")
    assert report["answers"][0]["top"][0]["index"] == best


@pytest.mark.slow
def test_speech_is_heard() -> None:
    model = corpora.corpus("models/yamnet_audio_classifier.tflite")
    sound, labels = (corpora.corpus(f"data/{n}") for n in ("speech.wav", "yamnet_521_labels.txt"))
    report = as_json("run", model, "--input", sound, "--labels", labels)
    assert report["answers"][0]["top"][0]["label"] == "Speech"


def test_a_sound_that_grows_to_much_is_refused_before_it_does(tmp_path: Path) -> None:
    path = write(tmp_path / "slow.wav", np.zeros(20_000), rate=1)
    with pytest.raises(LimitError, match="unpacks to"):
        read_sound_input(path, FLOAT)


def test_a_sound_is_refused_where_its_samples_take_too_much(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", np.zeros(1000))
    with pytest.raises(LimitError, match="22000 bytes, the limit is 21999"):
        read_wav(path, 21_999)
    assert len(read_wav(path, 22_000)[0]) == 1000
