"""Every example runs, and its answer is the one that a person would give."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import child
from tests.corpora import corpus

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"

ALONE = {
    "classify_digits.py": "int8: 9 of 10 right",
    "bound_call.py": "picture 1 shows 9",
    "share_a_session.py": "10 of 10 answers",
    "watch_layers.py": "SOFTMAX            probabilities: probabilities (1, 10)",
    "litert_script.py": "digit 5 with probability 0.996",
    "untrusted_file.py": "cut short: E-FORMAT",
    "compile_for_a_board.py": "for aarch64",
    "keep_a_latency_target.py": "requests were answered; the picture shows 5",
}
WITH_FILES = {
    "classify_picture.py": (
        ["mobilenet_v2_1.0_224_quant.tflite", "grace_hopper.bmp", "imagenet_labels.txt"],
        "military uniform",
    ),
    "detect_objects.py": (
        ["coco_ssd_mobilenet_v1_1.0_quant.tflite", "cats_and_dogs.jpg", "coco_labels.txt", "> a"],
        "cat 0.66",
    ),
    "segment_picture.py": (
        [
            "deeplabv3_mnv2_dm05_pascal_quant.tflite",
            "bird_segmentation.bmp",
            "pascal_voc_segmentation_labels.txt",
            "> a",
        ],
        "17.6%  bird",
    ),
    "recognise_sounds.py": (
        ["yamnet_audio_classifier.tflite", "speech.wav", "yamnet_521_labels.txt"],
        "0.97 s  Speech 0.99",
    ),
    "judge_review.py": (
        ["movie_review.tflite", "movie_review_vocab.txt", "A wonderful film, I loved it"],
        "positive: ",
    ),
}


def printed(script: str, *arguments: str) -> str:
    """What a script prints."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *arguments],
        env=child.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("script", ALONE)
def test_an_example_runs_on_what_circlet_carries(script: str) -> None:
    pytest.importorskip("ziglang", reason="examples compile networks")
    assert ALONE[script] in printed(script)


@pytest.mark.slow
@pytest.mark.parametrize("script", WITH_FILES)
def test_an_example_runs_on_files(script: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="examples compile networks")
    pytest.importorskip("PIL", reason="examples open pictures")
    words, answer = WITH_FILES[script]
    assert answer in printed(script, *(found(word, tmp_path) for word in words))
    made = list(tmp_path.iterdir())
    assert len(made) == words.count("> a") and all(path.stat().st_size > 10_000 for path in made)


@pytest.mark.slow
@pytest.mark.parametrize("script", WITH_FILES)
def test_an_example_that_lacks_files_says_how_it_is_called(script: str) -> None:
    pytest.importorskip("PIL", reason="examples open pictures")
    command = [sys.executable, str(FOLDER / script)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=child.environment()
    )
    assert done.returncode == 1 and f"python examples/{script} " in done.stderr
    assert "Traceback" not in done.stderr


def found(word: str, folder: Path) -> str:
    """A file of the corpora, a place for a result, or the word itself."""
    if word == "> a":
        return str(folder / "made.png")
    if " " in word:
        return word
    return str(corpus(("models/" if word.endswith(".tflite") else "data/") + word))


def test_every_script_has_a_test_and_is_listed() -> None:
    scripts = {path.name for path in FOLDER.glob("*.py")}
    assert scripts == {*ALONE, *WITH_FILES}
    for page in (FOLDER / "README.md", ROOT / "docs" / "examples.md"):
        listed = re.findall(r"^\| \[(\S+)\]", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(listed) == {path.name for path in FOLDER.iterdir()} - {"README.md"}
