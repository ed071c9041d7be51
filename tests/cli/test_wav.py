"""`circlet run` on sounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.errors import InputError
from circlet.formats import dumps
from circlet.formats.arrays import Wanted
from circlet.formats.sound import SoundOptions, read_sound_input
from circlet.ir import DType
from circlet.ops.build import builder
from tests import corpora
from tests.cli.call import as_json
from tests.formats.sounds import RATE, write

FLOAT = Wanted("waveform", "float32", (1, 8))


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


@pytest.mark.parametrize(
    ("model", "word", "best"),
    [
        ("kws_dscnn_int8", "yes_1000ms", 9),
        ("kws_dscnn_int8", "silence_1000ms", 10),
        ("kws_dscnn_hybrid", "yes_1000ms", 9),
        ("micro_speech_quantized", "yes_1000ms", 2),
        ("micro_speech_quantized", "no_1000ms", 3),
        ("micro_speech_quantized", "silence_1000ms", 0),
        ("micro_speech_quantized", "speech", 1),
    ],
)
def test_a_spoken_word_is_spotted_without_options(model: str, word: str, best: int) -> None:
    path = corpora.corpus(f"models/{model}.tflite")
    report = as_json("run", path, "--input", corpora.corpus(f"data/{word}.wav"))
    assert report["answers"][0]["top"][0]["index"] == best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "word", "best"),
    [
        ("micro_speech_lstm_int8", "yes_1000ms", 0),
        ("micro_speech_lstm_int8", "no_1000ms", 1),
        ("micro_speech_lstm_int8", "speech", 2),
        ("str_ww_ref_model", "yes_1000ms", 2),
        ("yamnet_audio_classifier", "speech", 0),
        ("yamnet_audio_classifier", "yes_1000ms", 0),
        ("yamnet_audio_classifier", "silence_1000ms", 494),
    ],
)
def test_what_a_sound_holds_is_heard(model: str, word: str, best: int) -> None:
    test_a_spoken_word_is_spotted_without_options(model, word, best)


def test_run_takes_other_kinds_of_sound(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="the extra [audio] is not installed")
    samples, rate = soundfile.read(corpora.corpus("data/yes_1000ms.wav"))
    soundfile.write(tmp_path / "yes.ogg", samples, rate)
    path = corpora.corpus("models/micro_speech_quantized.tflite")
    report = as_json("run", path, "--input", tmp_path / "yes.ogg", "--start", "0")
    assert report["answers"][0]["top"][0]["index"] == 2
