"""Boxes, regions, proposals and keypoints, with numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlet.errors import FormatError, InputError, LimitError
from circlet.formats import dumps, load
from circlet.formats.options import decode_custom
from tests.formats.nnapi.networks import BYTES, FLOATS, INTS
from tests.formats.nnapi.several import PIXELS, WIDE, Result, Several, answers_of

SCORES: dict[str, Any] = {"scale": 0.01, "zeroPoint": 0}
RAMP = np.broadcast_to(np.arange(8.0)[None, None, :, None], (1, 8, 8, 1))


def _moved(deltas: Sequence[float], box: Sequence[float] = (2, 2, 6, 10)) -> Several:
    network = Several()
    operands = [network.input([box]), network.input([deltas])]
    operands += [network.input([0], INTS), network.input([[12.0, 8.0]])]
    network.makes("AXIS_ALIGNED_BBOX_TRANSFORM", operands, (FLOATS, (1, len(deltas))))
    return network


def test_boxes_move_by_parts_of_their_sides_and_stay_in_the_image() -> None:
    """Centre (4, 6), sides 4 and 8: one class moves and halves, the other grows beyond all."""
    half, large = np.log(0.5), np.log(100.0)
    (moved,) = _moved([0.5, -0.25, half, half, 0, 0, large, large]).answers()
    np.testing.assert_allclose(moved, [[5, 2, 7, 6, 0, 0, 8, 12]], rtol=1e-6)


def test_boxes_of_bytes_are_in_eighths_of_a_pixel() -> None:
    network = Several()
    operands = [network.input([[16, 16, 48, 80]], WIDE, **PIXELS)]
    operands.append(network.input([[138, 128, 128, 128]], BYTES, scale=0.05, zeroPoint=128))
    operands += [network.input([0], INTS), network.input([[96, 64]], WIDE, **PIXELS)]
    network.makes("AXIS_ALIGNED_BBOX_TRANSFORM", operands, (WIDE, (1, 4), PIXELS))
    assert network.answers()[0].tolist() == [[32, 16, 64, 80]]


def test_a_box_whose_corners_are_not_in_order_is_refused_in_the_run() -> None:
    with pytest.raises(InputError, match="corners of a box are not in order"):
        _moved([0, 0, 0, 0], (6, 2, 2, 10)).answers()


def _limited(kernel: int, kind: str = FLOATS, sigma: float = 0.5) -> Several:
    """Three boxes of one class beside the background: the second overlaps the first by 0.8."""
    network = Several()
    boxes = [[0, 0, 9, 10], [0, 0, 9, 8], [20, 20, 24, 24]]
    scores = [[0.1, 0.9], [0.5, 0.8], [0.2, 0.7]]
    if kind == FLOATS:
        own = [network.input(scores), network.input(np.tile(boxes, 2))]
        results: list[Result] = [(FLOATS, (0,)), (FLOATS, (0, 4))]
    else:
        stored = np.tile(boxes, 2) * 8
        own = [network.input(np.rint(np.array(scores) * 100), BYTES, **SCORES)]
        own.append(network.input(stored, WIDE, **PIXELS))
        results = [(BYTES, (0,), SCORES), (WIDE, (0, 4), PIXELS)]
    own.append(network.input([0, 0, 5], INTS))
    rest = network.scalars(0.3, -1, kernel, 0.5, sigma, 0.3)
    network.makes("BOX_WITH_NMS_LIMIT", [*own, *rest], *results, (INTS, (0,)), (INTS, (0,)))
    return network


@pytest.mark.parametrize("kernel", [0, 1, 2])
def test_what_overlaps_weakens_until_it_goes(kernel: int) -> None:
    """0.8 becomes 0, 0.8 * (1 - 0.8), or 0.8 * exp(-0.64 / 0.5), all below 0.3."""
    scores, boxes, classes, batches = _limited(kernel).answers()
    np.testing.assert_allclose(scores, [0.9, 0.7], rtol=1e-6)
    assert boxes.tolist() == [[0, 0, 9, 10], [20, 20, 24, 24]]
    assert (classes.tolist(), batches.tolist()) == ([1, 1], [0, 5])


def test_a_gentle_kernel_keeps_a_weaker_score() -> None:
    scores, *_ = _limited(2, sigma=2.0).answers()
    np.testing.assert_allclose(scores, [0.9, 0.8 * np.exp(-0.64 / 2), 0.7], rtol=1e-6)


def test_boxes_of_bytes_are_kept_as_they_are() -> None:
    scores, boxes, *_ = _limited(0, BYTES).answers()
    assert scores.tolist() == [90, 70]
    assert boxes.tolist() == [[0, 0, 72, 80], [160, 160, 192, 192]]


def test_nothing_above_the_threshold_gives_nothing() -> None:
    network = _limited(0)
    scores, boxes, *_ = network.answers(np.zeros((3, 2), "f4"), *network.given[1:])
    assert (scores.shape, boxes.shape) == ((0,), (0, 4))


@pytest.mark.parametrize("nchw", [False, True])
def test_proposals_are_anchors_moved_and_thinned(nchw: bool) -> None:
    """Two places 4 pixels apart; of what stands upright there the second is the better."""
    network = Several()
    scores = np.array([0.6, 0.7], np.float32).reshape(1, 1, 2, 1)
    deltas = np.zeros((1, 1, 2, 4), np.float32)
    deltas[..., 0] = [0.5, 0]
    images = [scores, deltas]
    arrays = [image.transpose(0, 3, 1, 2) for image in images] if nchw else images
    operands = [network.input(array) for array in arrays]
    operands += [network.input([[0.0, 0, 4, 4]]), network.input([[20.0, 20.0]])]
    operands += network.scalars(4.0, 4.0, -1, -1, 0.3, 1.0, nchw)
    results = ((FLOATS, (0,)), (FLOATS, (0, 4)), (INTS, (0,)))
    network.makes("GENERATE_PROPOSALS", operands, *results)
    best, boxes, batches = network.answers()
    assert boxes.tolist() == [[4, 0, 8, 4]], "the first overlaps it by a third"
    assert (best.tolist(), batches.tolist()) == ([pytest.approx(0.7)], [0])


@pytest.mark.parametrize("regular", [False, True])
def test_detections_are_decoded_and_ranked(regular: bool) -> None:
    """Anchors are (y, x, h, w) of centres and sides; the background is no label."""
    network = Several()
    scores = network.input([[[0.0, 0.1, 0.9], [0.0, 0.6, 0.2]]])
    deltas = network.input([[[1.0, 0, 0, 0], [0, 0, 0, 5 * np.log(2)]]])
    anchors = network.constant([[0.0, 0, 2, 2], [10, 10, 2, 4]])
    rest = network.scalars(10.0, 10.0, 5.0, 5.0, regular, 3, 1, 3, 0.3, 0.5, False)
    results = ((FLOATS, (1, 3)), (FLOATS, (1, 3, 4)), (INTS, (1, 3)), (INTS, (1,)))
    network.makes("DETECTION_POSTPROCESSING", [scores, deltas, anchors, *rest], *results)
    best, boxes, classes, count = network.answers()
    np.testing.assert_allclose(best, [[0.9, 0.6, 0]], rtol=1e-6)
    expected = np.array([[-0.8, -1, 1.2, 1], [9, 6, 11, 14], [0, 0, 0, 0]])
    np.testing.assert_allclose(boxes[0], expected, rtol=1e-5, atol=1e-6)
    assert (classes[0, :2].tolist(), count.tolist()) == ([1, 0], [2])


@pytest.mark.parametrize("nchw", [False, True])
def test_the_top_of_a_paraboloid_is_found_between_pixels(nchw: bool) -> None:
    rows, columns = np.indices((4, 4)).astype(np.float32)
    maps = (
        3 - (columns - 1.25) ** 2 - 2 * (rows - 2.25) ** 2 + 0.5 * (columns - 1.25) * (rows - 2.25)
    )
    network = Several()
    image = maps[None, None] if nchw else maps[None, ..., None]
    operands = [network.input(image), network.input([[10.0, 20, 18, 36]]), network.scalar(nchw)]
    network.makes("HEATMAP_MAX_KEYPOINT", operands, (FLOATS, (1, 1)), (FLOATS, (1, 1, 2)))
    height, place = network.answers()
    np.testing.assert_allclose(height, [[3]], rtol=1e-5)
    np.testing.assert_allclose(place[0, 0], [10 + 8 * 1.75 / 4, 20 + 16 * 2.75 / 4], rtol=1e-5)


def _aligned(samples: int, nchw: bool = False, region: Sequence[float] = (2, 2, 10, 6)) -> Several:
    network = Several()
    image = RAMP.transpose(0, 3, 1, 2) if nchw else RAMP
    operands = [network.input(image), network.input([region]), network.input([0], INTS)]
    operands += network.scalars(2, 4, 2.0, 2.0, samples, samples, nchw)
    network.makes("ROI_ALIGN", operands, (FLOATS, (1, 1, 2, 4) if nchw else (1, 2, 4, 1)))
    return network


@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("nchw", [False, True])
def test_the_mean_of_a_ramp_is_its_middle(samples: int, nchw: bool) -> None:
    """Pixels 1 to 5 of the map in four parts."""
    (made,) = _aligned(samples, nchw).answers()
    np.testing.assert_allclose(made.reshape(2, 4), [[1.5, 2.5, 3.5, 4.5]] * 2, rtol=1e-6)


def test_a_region_beyond_the_map_is_refused_in_the_run() -> None:
    with pytest.raises(InputError, match="leaves the map of 8 by 8"):
        _aligned(0, region=(2, 2, 18, 6)).answers()


def test_samples_take_no_more_memory_than_is_allowed() -> None:
    """A hundred million of them for each part."""
    network = _aligned(10_000)
    with pytest.raises(LimitError, match="samples of a row of parts"):
        network.answers()


def test_means_of_bytes_are_rounded_at_the_scale_of_the_result() -> None:
    network = Several()
    operands = [network.input(RAMP * 10 + 5, BYTES, scale=0.1, zeroPoint=5)]
    operands.append(network.input([[16, 16, 80, 48]], WIDE, **PIXELS))
    operands += [network.input([0], INTS), *network.scalars(2, 4, 2.0, 2.0, 0, 0, False)]
    network.makes("ROI_ALIGN", operands, (BYTES, (1, 2, 4, 1), {"scale": 0.5, "zeroPoint": 5}))
    made = network.answers()[0].reshape(2, 4)
    np.testing.assert_allclose(made, [[8, 10, 12, 14]] * 2, atol=1)


@pytest.mark.parametrize("nchw", [False, True])
def test_pools_of_regions_hold_the_largest_pixels(nchw: bool) -> None:
    """Pixels 1 to 5, both included, in two parts that share one."""
    image = np.arange(64.0).reshape(1, 8, 8, 1)
    network = Several()
    data = network.input(image.transpose(0, 3, 1, 2) if nchw else image)
    operands = [data, network.input([[2.0, 2, 10, 2]]), network.input([0], INTS)]
    operands += network.scalars(1, 2, 2.0, 2.0, nchw)
    network.makes("ROI_POOLING", operands, (FLOATS, (1, 1, 1, 2) if nchw else (1, 1, 2, 1)))
    assert network.answers()[0].reshape(-1).tolist() == [8 + 3, 8 + 5]


def test_operators_of_their_own_are_stored_and_read() -> None:
    network = _aligned(3)
    model = load(dumps(network.model(), "circle"))
    np.testing.assert_array_equal(answers_of(model, network.given)[0], network.answers()[0])


@pytest.mark.parametrize("data", [b"", b"[]", b'{"height": [1]}', b"{"])
def test_damaged_options_are_refused(data: bytes) -> None:
    decode = decode_custom("nnapi.ROI_ALIGN")
    assert decode is not None
    with pytest.raises(FormatError, match="options of an NNAPI operator"):
        decode(data)
