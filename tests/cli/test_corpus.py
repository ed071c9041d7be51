"""Real pictures through real networks give the labels that a person would."""

from __future__ import annotations

import pytest

from tests.cli.call import as_json
from tests.corpora import corpus


@pytest.mark.parametrize(
    ("model", "picture", "label"),
    [
        ("mobilenet_v1_0.25_224_quant", "cat.bmp", "Egyptian cat"),
        pytest.param(
            *("mobilenet_v2_1.0_224_quant", "grace_hopper.bmp", "military uniform"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("tf2_mobilenet_v2_1.0_224_ptq", "parrot.jpg", "macaw"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_picture_gets_its_label(model: str, picture: str, label: str) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    report = as_json(
        "run",
        corpus(f"models/{model}.tflite"),
        "--input",
        corpus(f"data/{picture}"),
        "--labels",
        corpus("data/imagenet_labels.txt"),
        "--strict",
    )
    assert report["answers"][0]["top"][0]["label"] == label
