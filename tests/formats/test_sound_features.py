"""Features are those of the exporters that networks come from, and chosen by evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.errors import InputError, LimitError
from circlet.formats.arrays import Wanted
from circlet.formats.features import NAMES, RECIPES, chosen
from circlet.formats.microfrontend import microfrontend
from circlet.formats.sound import SoundOptions, read_sound_input
from circlet.formats.sound_files import read_sound
from circlet.formats.spectra import Mel, features_of, mel_bands
from tests import corpora
from tests.formats.sounds import RATE, tone, write

FLOAT = Wanted("waveform", "float32", (1, 8))
FRONT_END = (0.10171568393707275,)


def computed(name: str, sound: np.ndarray, frames: int, width: int) -> np.ndarray:
    return features_of(RECIPES[name], sound, RATE, frames, width)


@pytest.mark.parametrize(
    ("shape", "scale", "zero", "name"),
    [
        ((1, 49, 10, 1), (0.5847029,), (83,), "mfcc"),
        ((1, 49, 10, 1), (1.0847,), (100,), "mfcc-tf"),
        ((1, 49, 10, 1), (), (), "mfcc"),
        ((1, 490), (), (), "mfcc-tf"),
        ((1, 3920), (), (), "mfcc-tf"),
        ((1, 1960), FRONT_END, (-128,), "microfrontend"),
        ((1, 3, 40), (0.10217524,), (-128,), "microfrontend"),
        ((1, 30, 1, 40), (0.0037,), (-128,), "log-mel-tiny"),
        ((1, 96, 64), (), (), "log-mel-yamnet"),
        ((1, 80, 3000), (), (), "log-mel-whisper"),
        ((1, 640), (), (), "log-mel-librosa"),
        ((1, 49, 257), (0.611,), (-128,), "spectrogram"),
        ((1, 124, 129, 1), (), (), "spectrogram"),
        ((1, 15600), (), (), "none"),
        ((16000, 1), (), (), "none"),
    ],
)
def test_shape_and_range_tell_the_features(
    shape: tuple[int, ...], scale: tuple[float, ...], zero: tuple[int, ...], name: str
) -> None:
    wanted = Wanted("x", "int8" if scale else "float32", shape, scale, zero)
    assert chosen(wanted, "", "").name == name


def test_what_is_asked_for_comes_first(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", tone(440))
    wanted = Wanted("x", "float32", (1, 49, 10, 1))
    guess, note = read_sound_input(path, wanted)
    assert "features mfcc [49, 10]" in note and "chosen by the input's shape" in note
    asked, note = read_sound_input(path, wanted, SoundOptions(features="mfcc-tf"))
    assert "features mfcc-tf [49, 10]" in note and "chosen" not in note
    assert not np.array_equal(guess, asked)
    flat = Wanted("x", "float32", (1, 640))
    assert "cut to 640 samples" in read_sound_input(path, flat, SoundOptions(features="none"))[1]


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        (Wanted("x", "int8", (1, 99, 7), (0.1,), (0,)), ""),
        (Wanted("x", "int32", (1, 49, 10)), ""),
        (Wanted("x", "float32", (1, 49, 10, 3)), "mfcc"),
        (Wanted("x", "float32", (1, 49, 41)), "mfcc"),
        (Wanted("x", "float32", (1, 49, 10)), "none"),
        (FLOAT, "mfcc"),
    ],
)
def test_features_that_do_not_fit_are_refused_by_name(wanted: Wanted, asked: str) -> None:
    with pytest.raises(InputError, match="a sound does not fit input"):
        chosen(wanted, asked, "x.wav")


def test_the_page_lists_the_features_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sound.md").read_text(encoding="utf-8")
    assert {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")} == {*NAMES}


@pytest.mark.parametrize(
    ("rate", "shape", "name"), [(1, (49, 10), "mfcc"), (RATE, (49, 10), "spectrogram")]
)
def test_frames_with_too_few_samples_or_too_many_are_refused(
    tmp_path: Path, rate: int, shape: tuple[int, ...], name: str
) -> None:
    path = write(tmp_path / "x.wav", tone(440))
    with pytest.raises(InputError, match="cannot be computed at"):
        read_sound_input(path, Wanted("x", "float32", shape), SoundOptions(rate, features=name))


@pytest.mark.parametrize(("rate", "frames"), [(1 << 30, 49), (RATE, 1 << 24)])
def test_frames_that_take_too_much_are_refused_before_they_are_made(
    tmp_path: Path, rate: int, frames: int
) -> None:
    path = write(tmp_path / "x.wav", tone(440))
    wanted = Wanted("x", "float32", (frames, 10))
    with pytest.raises(LimitError, match="unpacks to"):
        read_sound_input(path, wanted, SoundOptions(rate, features="mfcc"))


def test_unknown_features_are_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="one of mfcc, mfcc-tf"):
        chosen(FLOAT, "chroma", "")


@pytest.mark.parametrize("name", [name for name in NAMES if name in RECIPES])
def test_every_recipe_makes_finite_features_of_any_sound(name: str) -> None:
    width = 257 if name == "spectrogram" else 10
    for sound in (np.zeros(0), np.zeros(RATE), np.ones(40), tone(440)):
        found = computed(name, sound, 49, width)
        assert found.shape == (49, width) and np.isfinite(found).all()


@pytest.mark.parametrize("name", ["log-mel-yamnet", "log-mel-librosa", "fbank-kaldi"])
def test_a_tone_stands_out_in_its_band(name: str) -> None:
    found = computed(name, 0.5 * tone(1000), 20, 64).mean(axis=0)
    mel = RECIPES[name].mel
    assert mel is not None
    weights = mel_bands(mel, 64, 513, RATE)
    assert abs(int(found.argmax()) - int(weights[64].argmax())) <= 1
    assert found.max() > found.min() + 3


def test_cepstral_coefficients_are_those_of_tensorflow_s_kernels() -> None:
    """Worked out bin by bin, as the kernels do: two neighbouring channels share each bin."""
    sound = 0.3 * tone(700, 0.04) + 0.2 * tone(1900, 0.04)
    length, points, channels = 640, 1024, 40
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    power = np.abs(np.fft.rfft(sound * window, points)) ** 2
    low, high = (1127.0 * np.log1p(hertz / 700.0) for hertz in (20.0, 4000.0))
    centres = low + (high - low) / (channels + 1) * np.arange(1, channels + 2)
    sums, hertz = np.zeros(channels), RATE / points
    for place in range(int(1.5 + 20.0 / hertz), int(4000.0 / hertz) + 1):
        mel = 1127.0 * np.log1p(place * hertz / 700.0)
        channel = int(np.searchsorted(centres, mel)) - 1
        below = centres[channel] if channel >= 0 else low
        share = (centres[channel + 1] - mel) / (centres[channel + 1] - below)
        if channel >= 0:
            sums[channel] += share * power[place] ** 0.5
        if channel + 1 < channels:
            sums[channel + 1] += (1 - share) * power[place] ** 0.5
    logs = np.log(np.maximum(sums, 1e-12))
    wanted = [
        np.sqrt(2 / channels) * sum(logs * np.cos(np.pi / channels * n * (np.arange(40) + 0.5)))
        for n in range(10)
    ]
    np.testing.assert_allclose(computed("mfcc-tf", sound, 49, 10)[0], wanted, rtol=1e-9)


def test_bands_of_equal_area_are_those_of_librosa() -> None:
    """`librosa.filters.mel(sr=16000, n_fft=400, n_mels=80)`, which Whisper's file of filters is."""
    made = mel_bands(Mel(0, slaney=True), 80, 201, RATE)
    assert made[:3, 0] == pytest.approx([0.0, 0.02486259, 0.0], rel=1e-5)
    assert made[:4, 1] == pytest.approx([0.0, 0.00199082, 0.02287177, 0.0], rel=1e-5)


def test_the_front_end_of_micro_speech_gives_the_features_that_its_sources_list() -> None:
    sound, _, _ = read_sound(corpora.corpus("data/yes_1000ms.wav"))
    found = np.rint(microfrontend(sound, RATE, 49, 40, 30, 20) / FRONT_END[0]) - 128
    listed = [116, 98, 118, 95, 106, 85, 101, 81, 67]
    assert np.abs(found[0, :9] - listed).max() <= 1
    listed = [61, 56, 77, 41, 73, 42, 82, 49, 59, 63, 82, 65, 66, 38, 83, 34, 48, -8, 46, 20]
    assert np.abs(found[14, :20] - listed).max() <= 2


def test_the_front_end_evens_out_loudness() -> None:
    sound = np.random.default_rng(0).normal(0, 0.1, RATE)
    loud, low = (microfrontend(part * sound, RATE, 98, 40, 30, 10)[50:] for part in (1, 0.25))
    assert np.abs(loud - low).mean() < 2 and loud.mean() > 3
    assert not microfrontend(np.zeros(RATE), RATE, 49, 40, 30, 20).any()
