"""Objects and poses from outputs as detectors and pose networks give them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.artifact.values import Value
from circlet.commands.answers import class_map
from circlet.commands.objects import candidates, detections
from circlet.commands.poses import BODY_POINTS, poses

SIZE = 64
CELLS = 8 * 8 + 4 * 4 + 2 * 2
PICTURE = (1, SIZE, SIZE, 3)


@pytest.mark.parametrize("in_pixels", [False, True])
@pytest.mark.parametrize("version", [5, 8])
def test_yolo_boxes_are_decoded_and_suppressed(version: int, in_pixels: bool) -> None:
    unit = SIZE if in_pixels else 1
    rows = np.zeros((3 * CELLS if version == 5 else CELLS, 7 if version == 5 else 6))
    box = np.array([0.5, 0.25, 0.2, 0.1]) * unit
    for row, score in ((3, 0.9), (4, 0.8), (9, 0.7)):
        rows[row, :4] = box
        rows[row, -2 + (row == 9)] = score
        if version == 5:
            rows[row, 4] = 1
    output = rows[None] if version == 5 else rows.T[None]
    offered = candidates([output], PICTURE)
    assert offered is not None
    found = detections(offered, ["a", "b"], 5, 0.5)
    assert [(item.label, round(item.score, 1)) for item in found] == [("a", 0.9), ("b", 0.7)]
    assert found[0].box == pytest.approx((0.2, 0.4, 0.3, 0.6))


def test_faces_lie_where_their_cells_are() -> None:
    raw, logits = np.zeros((1, 896, 16)), np.full((1, 896, 1), -50.0)
    logits[0, 0] = 5.0
    raw[0, 0, :4] = (0, 0, 12.8, 25.6)  # x, y, width and height in pixels of 128
    offered = candidates([raw, logits], (1, 128, 128, 3))
    assert offered is not None
    (face,) = detections(offered, [], 5, 0.5)
    centre = 0.5 / 16
    box = (centre - 0.1, centre - 0.05, centre + 0.1, centre + 0.05)
    assert face.label == "face" and face.box == pytest.approx(box)
    assert face.points[0].name == "right eye" and face.points[0].y == pytest.approx(centre)


def test_a_detector_that_found_what_is_no_number_gives_nothing_of_it() -> None:
    boxes, rows = np.zeros((1, 3, 4)), np.full((1, 3), np.nan)
    offered = candidates([boxes, rows, rows, np.array([3.0])])
    assert offered is not None and detections(offered, [], 5) == ()


def test_movenet_gives_named_points() -> None:
    output = np.zeros((1, 1, 17, 3))
    output[0, 0, 0] = (0.25, 0.5, 0.9)
    (pose,) = poses([output]) or ()
    nose = pose.points[0]
    assert (nose.name, nose.y, nose.x, nose.score) == (BODY_POINTS[0], 0.25, 0.5, 0.9)
    assert poses([output], (), 0.5) == ()


def test_several_people_of_movenet_each_have_a_score() -> None:
    output = np.zeros((1, 6, 56))
    output[0, :2, -1] = (0.9, 0.1)
    found = poses([output], (), 0.3)
    assert found is not None and [pose.score for pose in found] == [0.9]


def test_heat_maps_and_offsets_make_a_pose() -> None:
    heat, offsets = np.full((1, 5, 5, 17), -9.0), np.zeros((1, 5, 5, 34))
    heat[0, 1, 2] = 4.0
    offsets[0, 1, 2, :17], offsets[0, 1, 2, 17:] = 3, 5
    (pose,) = poses([heat, offsets, np.zeros((1, 5, 5, 64))], (1, 65, 65, 3)) or ()
    assert (pose.points[3].y, pose.points[3].x) == pytest.approx((19 / 65, 37 / 65))
    assert pose.score > 0.9


def test_other_outputs_are_no_poses() -> None:
    assert poses([np.zeros((1, 17, 3))], PICTURE) is None
    assert poses([np.zeros((1, 5, 5, 17))], PICTURE) is None


def test_heat_maps_are_no_maps_of_classes_and_probabilities_are() -> None:
    heat = np.random.default_rng(1).random((1, 32, 32, 17)).astype(np.float32)
    value = Value("out", "float32", heat.shape)
    assert class_map(value, heat, [(1, 32, 32, 34)]) is None
    found = class_map(value, heat, [])
    assert found is not None and found.classes.shape == (32, 32)
    mask = heat[..., :1]
    shown = class_map(Value("out", "float32", mask.shape), mask, [])
    assert shown is not None and set(np.unique(shown.classes)) == {0, 1}
    assert class_map(Value("out", "float32", (1, 32, 32, 3)), heat[..., :3], []) is None


def test_yunet_gives_faces_with_points_on_three_grids() -> None:
    """A face in the second row and third column of the middle grid, two cells high."""
    outputs = []
    for stride in (8, 16, 32):
        cells = (SIZE // stride) ** 2
        outputs += [np.zeros((1, cells, n)) for n in (1, 1, 4, 10)]
    cell = 1 * (SIZE // 16) + 2
    outputs[4][0, cell], outputs[5][0, cell] = 0.9, 0.4
    outputs[6][0, cell] = (0.5, 0.5, 0, np.log(2))  # x, y, and logarithms of width and height
    outputs[7][0, cell, :2] = (0.25, 0.75)
    offered = candidates(outputs, (1, 3, SIZE, SIZE))
    assert offered is not None
    (face,) = detections(offered, [], 5, 0.5)
    assert face.label == "face" and face.score == pytest.approx(0.6)
    assert face.box == pytest.approx((0.5 / 4, 2 / 4, 2.5 / 4, 3 / 4))
    eye = face.points[0]
    assert eye.name == "right eye" and (eye.y, eye.x) == pytest.approx((1.75 / 4, 2.25 / 4))
    assert candidates(outputs[:-1], (1, 3, SIZE, SIZE)) is None


def test_chances_beside_finished_boxes_are_a_detector_whose_first_class_is_the_background() -> None:
    boxes = np.tile(np.array([0.1, 0.2, 0.3, 0.6]), (1, 5, 1))  # x, y, x, y
    chances = np.tile(np.array([0.9, 0.1, 0.0]), (1, 5, 1))
    chances[0, 3] = (0.2, 0.1, 0.7)
    for outputs in ([chances, boxes], [boxes, chances]):
        offered = candidates(outputs, PICTURE)
        assert offered is not None
        (found,) = detections(offered, ["background", "a", "b"], 5, 0.5)
        assert (found.label, found.score) == ("b", 0.7)
        assert found.box == pytest.approx((0.2, 0.1, 0.6, 0.3))
    assert candidates([chances * 3, boxes], PICTURE) is None  # no chances
    assert candidates([chances, boxes * 320], PICTURE) is None  # boxes in pixels


@pytest.mark.parametrize("is_first", [False, True])
def test_maps_of_classes_are_read_along_the_dimension_that_holds_channels(is_first: bool) -> None:
    scores = np.zeros((1, 32, 48, 21), np.float32)
    scores[0, :, :24, 7] = 1
    picture = (1, 3, 128, 192) if is_first else (1, 128, 192, 3)
    array = np.moveaxis(scores, -1, 1) if is_first else scores
    found = class_map(Value("out", "float32", array.shape), array, input_shape=picture)
    assert found is not None and found.count == 21
    assert (found.classes == np.where(np.arange(48) < 24, 7, 0)).all()


@pytest.mark.parametrize("shape", [(1, 85, 22, 22), (1, 22, 22, 85), (1, 40, 22, 85)])
def test_what_detectors_compute_with_is_no_map_of_classes(shape: tuple[int, ...]) -> None:
    """It is coarse beside the picture, or of other proportions."""
    output = np.random.default_rng(0).uniform(size=shape)
    for picture in ((1, 352, 352, 3), (1, 3, 352, 352)):
        assert class_map(Value("out", "float32", shape), output, input_shape=picture) is None
