from __future__ import annotations

import numpy as np
import pytest

from circlet.artifact.values import Value, unique_names
from circlet.commands.answers import answer, class_map, dequantised, no_labels_fit
from circlet.commands.labels import NO_LABELS, Labels
from circlet.commands.objects import candidates, detections
from circlet.commands.timing import time_runs

NAMES = ("cat", "dog", "bird")
LABELS = Labels(NAMES, "labels.txt")


def value(array: np.ndarray, scale: float = 0.0, zero_point: int = 0) -> Value:
    quant = ((scale,), (zero_point,)) if scale else ((), ())
    return Value("out", array.dtype.name, array.shape, *quant)


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 1, 3), (1, 3, 1, 1)])
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
    assert [best.index for best in answer(value(scores), scores, NO_LABELS, 3).top] == [0, 1, 2]


def test_labels_of_another_count_are_left_out_and_told_of_with_both_counts() -> None:
    scores = np.zeros((1, 40), np.float32)
    got = answer(value(scores), scores, LABELS, 3)
    assert [(best.index, best.label) for best in got.top] == [(0, ""), (1, ""), (2, "")]
    warning = no_labels_fit(LABELS, [40])
    assert "3 labels" in warning and "40 classes" in warning
    assert not no_labels_fit(LABELS, [40, 4])


@pytest.mark.parametrize(
    ("names", "classes", "fitted"),
    [
        (("a", "b"), 3, ("background", "a", "b")),
        (("background", "a", "b"), 2, ("a", "b")),
        (("???", "a", "b"), 2, ("a", "b")),
        (("a", "b", "c"), 2, ()),
        (("a", "b", "", "a note", "another"), 2, ("a", "b")),
        (("a", "b", "", ""), 2, ("a", "b")),
        (("a", "", "c"), 3, ("a", "", "c")),
        ((), 2, ()),
    ],
)
def test_labels_fit_with_or_without_the_background_and_notes(
    names: tuple[str, ...], classes: int, fitted: tuple[str, ...]
) -> None:
    assert Labels(names, "x").fitted(classes) == fitted


def test_an_image_of_classes_is_summed_up_by_share() -> None:
    classes = np.array([[0, 0, 2], [0, 2, 1]], np.int64)
    map_ = class_map(value(classes), classes)
    shares = answer(value(classes), classes, LABELS, 2, classes=map_).shares
    assert [(part.label, part.share) for part in shares] == [("cat", 0.5), ("bird", 2 / 6)]


@pytest.mark.parametrize("shape", [(2, 3), (0,), (), (1, 1)])
def test_other_outputs_are_summarised(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 2.5, np.float32)
    got = answer(value(array), array, NO_LABELS, 5)
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


def found(
    arrays: list[np.ndarray], names: tuple[str, ...] = NAMES, least_score: float = 0.0
) -> list[tuple[str, float]]:
    offered = candidates(arrays)
    assert offered is not None
    kept = detections(offered, names, 5, least_score)
    return [(item.label, round(item.score, 2)) for item in kept]


def test_a_detectors_objects_get_labels_scores_and_boxes() -> None:
    assert found(detector()) == [("bird", 0.9), ("cat", 0.5)]
    offered = candidates(detector())
    assert offered is not None
    second = detections(offered, NAMES, 5)[1]
    assert second.box == pytest.approx((4 / 12, 5 / 12, 6 / 12, 7 / 12))


def test_a_detectors_outputs_may_stand_in_another_order() -> None:
    boxes, classes, scores, number = detector()
    assert found([scores, boxes, number, classes]) == found(detector())


def test_objects_below_the_least_score_are_left_out() -> None:
    assert found(detector(), least_score=0.6) == [("bird", 0.9)]


def test_an_object_of_an_unknown_class_has_no_label() -> None:
    assert [label for label, _ in found(detector(3))] == ["bird", "cat", ""]


def test_a_background_among_the_labels_is_no_object() -> None:
    assert Labels(("???", *NAMES), "x").of_objects() == NAMES


def test_other_outputs_are_no_detections() -> None:
    assert candidates(detector()[:3]) is None
    assert candidates([array[..., :1] for array in detector()]) is None
