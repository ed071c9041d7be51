from __future__ import annotations

import json

import numpy as np
import pytest

from circlet import Session
from circlet.sample import FOLDER, Sample

FACTS = json.loads((FOLDER / "accuracy.json").read_text(encoding="utf-8"))
BACKENDS = [("cpu", "reference"), ("reference",)]
each_kind = pytest.mark.parametrize("kind", ["float", "int8"])
each_backend = pytest.mark.parametrize("backends", BACKENDS, ids=lambda names: names[0])


def classes(kind: str, images: np.ndarray, backends: tuple[str, ...] = BACKENDS[0]) -> np.ndarray:
    """The best class of each image, float32 [N, 8, 8, 1] in 0..1."""
    session = Session(Sample(kind).model_path, backends=backends)
    if kind == "int8":
        images = (np.rint(images * 255) - 128).astype(np.int8)
    answers = [next(iter(session.run([image[None]]).values()))[0] for image in images]
    return np.argmax(answers, axis=1)


@each_kind
@each_backend
def test_the_shipped_pictures_are_read_right_but_for_a_hard_five(
    kind: str, backends: tuple[str, ...]
) -> None:
    images, labels = Sample.pictures()
    answers = classes(kind, images, backends)
    assert np.flatnonzero(answers != labels).tolist() == [1]
    assert (labels[1], answers[1]) == (5, 9)


@pytest.mark.smoke
@each_backend
def test_the_int8_scores_are_exact(backends: tuple[str, ...]) -> None:
    session = Session(Sample().model_path, backends=backends)
    for picture, wanted in enumerate(Sample.int8_scores()):
        (got,) = session.run([Sample(picture=picture).image()]).values()
        np.testing.assert_array_equal(got[0], wanted)


@each_kind
def test_the_stated_accuracy_holds_on_the_held_out_pictures(kind: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn holds the pictures")
    digits = datasets.load_digits()
    images = (digits.images[::5, :, :, None] / 16).astype(np.float32)
    labels = digits.target[::5]
    assert len(labels) == FACTS["held_out_images"]
    accuracy = float(np.mean(classes(kind, images) == labels))
    assert accuracy == pytest.approx(FACTS[f"{kind}_accuracy"], abs=5e-5)
    assert accuracy > 0.97


@each_kind
def test_the_shipped_pictures_are_among_the_held_out_ones(kind: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn holds the pictures")
    held_out = (datasets.load_digits().images[::5] / 16).astype(np.float32)
    images, _ = Sample.pictures()
    assert all((held_out == image[..., 0]).all(axis=(1, 2)).any() for image in images)


@each_kind
def test_a_sample_describes_itself(kind: str) -> None:
    sample = Sample(kind, picture=1)
    assert f"{FACTS[f'{kind}_accuracy']:.1%}" in sample.title
    assert sample.expected in sample.labels
    assert sample.image().shape == (1, 8, 8, 1)
    assert sample.image().dtype == {"float": np.float32, "int8": np.int8}[kind]
