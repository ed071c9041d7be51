from __future__ import annotations

import numpy as np
import pytest

from circlet.artifact.values import Value, unique_names
from circlet.commands.answers import answer, dequantised, detections
from circlet.commands.timing import time_runs

LABELS = ["cat", "dog", "bird"]


def value(array: np.ndarray, scale: float = 0.0, zero_point: int = 0) -> Value:
    quant = ((scale,), (zero_point,)) if scale else ((), ())
    return Value("out", array.dtype.name, array.shape, *quant)


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 1, 3)])
def test_scores_are_ranked_and_labelled(shape: tuple[int, ...]) -> None:
    scores = np.array([0.2, 0.7, 0.1], np.float32).reshape(shape)
    top = answer(value(scores), scores, LABELS, 2).top
    assert [(best.index, best.label) for best in top] == [(1, "dog"), (0, "cat")]


def test_quantised_scores_are_shown_as_real_numbers() -> None:
    scores = np.array([0, 10, 4], np.uint8)
    top = answer(value(scores, 0.5, 4), scores, LABELS, 3).top
    assert [best.score for best in top] == [3.0, 0.0, -2.0]


def test_equal_scores_keep_their_order() -> None:
    scores = np.zeros(4, np.float32)
    assert [best.index for best in answer(value(scores), scores, [], 3).top] == [0, 1, 2]


def test_labels_of_another_count_are_not_guessed() -> None:
    scores = np.zeros((1, 40), np.float32)
    assert answer(value(scores), scores, LABELS, 3).top == ()


def test_an_image_of_classes_is_summed_up_by_share() -> None:
    classes = np.array([[0, 0, 2], [0, 2, 1]], np.int64)
    shares = answer(value(classes), classes, LABELS, 2).shares
    assert [(part.label, part.share) for part in shares] == [("cat", 0.5), ("bird", 2 / 6)]


@pytest.mark.parametrize("shape", [(2, 3), (0,), (), (1, 1)])
def test_other_outputs_are_summarised(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 2.5, np.float32)
    got = answer(value(array), array, [], 5)
    assert not got.top
    assert not got.shares
    wanted = 2.5 if array.size else 0.0
    assert (got.minimum, got.maximum, got.mean) == (wanted, wanted, wanted)


def test_per_channel_outputs_are_shown_as_stored() -> None:
    array = np.array([1, 2], np.int8)
    channels = Value("out", "int8", (2,), (0.1, 0.2), (0, 0))
    np.testing.assert_array_equal(dequantised(channels, array), [1, 2])


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a:1", "a:2"]),
        (["a", "a:2", "a"], ["a", "a:2", "a:2:2"]),
        (["a", "a", "a:1"], ["a", "a:1:1", "a:1"]),
        (["", ""], ["", ":1"]),
    ],
)
def test_repeated_names_are_numbered_apart(names: list[str], unique: list[str]) -> None:
    values = [Value(name, "float32", ()) for name in names]
    assert unique_names(values) == unique


def test_timed_runs_follow_the_first_and_the_warm_up() -> None:
    calls: list[int] = []
    times = time_runs(lambda: calls.append(1), repeat=5, warmup=3)
    assert len(calls) == 9
    assert times.repeats == 5
    assert times.fastest_ms <= times.median_ms <= times.slowest_ms


def test_without_repeats_the_first_run_is_shown() -> None:
    times = time_runs(lambda: None, repeat=0, warmup=0)
    assert times.repeats == 0
    assert times.median_ms == times.first_ms


def detector(count: int = 2) -> list[np.ndarray]:
    boxes = np.arange(12, dtype=np.float32).reshape(1, 3, 4) / 12
    classes, scores = np.array([[2, 0, 9]], np.float32), np.array([[0.9, 0.5, 0.1]], np.float32)
    return [boxes, classes, scores, np.array([count], np.float32)]


def test_a_detectors_objects_get_labels_scores_and_boxes() -> None:
    found = detections(detector(), LABELS, 5)
    assert [(item.label, round(item.score, 2)) for item in found] == [("bird", 0.9), ("cat", 0.5)]
    assert found[1].box == pytest.approx((4 / 12, 5 / 12, 6 / 12, 7 / 12))


def test_an_object_of_an_unknown_class_has_no_label() -> None:
    assert [item.label for item in detections(detector(3), LABELS, 5)] == ["bird", "cat", ""]


def test_other_outputs_are_no_detections() -> None:
    assert detections(detector()[:3], LABELS, 5) == ()
    assert detections([array[..., :1] for array in detector()], LABELS, 5) == ()
