"""BOX_WITH_NMS_LIMIT and GENERATE_PROPOSALS give natively what the records give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.nnapi.record import PREFIX, Scalar, scalars
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.softmax import SoftmaxAttrs
from tests.backends.cpu.cases import each_width
from tests.backends.cpu.harness import runnable
from tests.backends.cpu.test_regions import PIXELS, Regions

ROWS, CLASSES, IMAGES = 43, 4, 2
MAP = (5, 7, 3)  # rows, columns, anchors at each place
TYPES = (DType.FLOAT32, DType.UINT8, DType.INT8)
KINDS = ("plain", "ties", "nothing", "alike", "flat", "odd")
SCORES = Quantization.per_tensor(0.01, 5)
MADE = Quantization.per_tensor(0.013, 3)
ANCHORS = Quantization.per_tensor(0.125, 4)
DELTAS = Quantization.per_tensor(0.02, 5)
Inputs = list[np.ndarray]


def stored(numbers: np.ndarray, dtype: DType, quant: Quantization) -> np.ndarray:
    """Numbers as a type holds them."""
    if dtype.is_float:
        return numbers.astype(np.float32)
    limits = np.iinfo(np.dtype(dtype.numpy).name)
    steps = (
        np.rint(np.clip(np.nan_to_num(numbers), -1e4, 1e4) / quant.scale[0]) + quant.zero_point[0]
    )
    return np.clip(steps, limits.min, limits.max).astype(dtype.numpy)


def scores_of(random: np.random.Generator, shape: Sequence[int], kind: str) -> np.ndarray:
    scores = random.uniform(0, 1, shape)
    if kind == "ties":
        return np.round(scores, 1)
    if kind == "odd":
        scores.reshape(-1)[:9] = [np.nan, np.inf, -np.inf, 0, -0.0, np.nan, -1, 1, 1]
    return np.zeros(shape) if kind == "nothing" else scores


def limit_inputs(kind: str, dtype: DType) -> Inputs:
    random = np.random.default_rng(KINDS.index(kind))
    ends = np.sort(random.uniform(0, 30, (ROWS, CLASSES, 2, 2)), axis=2)
    if kind == "alike":
        ends[:] = ends[:1, :1]
    if kind == "flat":
        ends[::2, :, 1] = ends[::2, :, 0]
    if kind == "odd" and dtype.is_float:
        ends[:4, :, 1], ends[2:3, :, 0] = np.inf, np.inf
    wide = DType.FLOAT32 if dtype.is_float else DType.UINT16
    scores = scores_of(random, (ROWS, CLASSES), kind)
    images = np.sort(random.integers(-2, 2, ROWS)).astype(np.int32)
    images[-3:] = images[0]
    boxes = stored(ends.reshape(ROWS, -1), wide, PIXELS)
    return [stored(scores, dtype, SCORES), boxes, images]


def proposal_inputs(kind: str, dtype: DType) -> Inputs:
    random = np.random.default_rng(KINDS.index(kind))
    high, narrow = (DType.FLOAT32,) * 2 if dtype.is_float else (DType.INT16, DType.UINT16)
    scores = scores_of(random, (IMAGES, *MAP), kind)
    deltas = random.normal(0, 0.4, (IMAGES, *MAP[:2], 4 * MAP[2]))
    anchors = np.array([[-4, -4, 4, 4], [-8, -3, 8, 3], [-2.5, -6, 2.5, 6]])
    images = np.array([[26, 40], [17, 31]])
    if kind == "alike":
        deltas[:] = 0
    if kind == "flat":
        anchors[1, 3] = anchors[1, 1]
    if kind == "odd" and dtype.is_float:
        deltas.reshape(-1)[::17] = np.nan
        deltas.reshape(-1)[5::31] = 200
    arrays = [stored(scores, dtype, SCORES), stored(deltas, dtype, DELTAS)]
    return [*arrays, stored(anchors, high, ANCHORS), stored(images, narrow, PIXELS)]


def given(cases: Regions, arrays: Inputs, quants: Sequence[Quantization]) -> list[Tensor]:
    pairs = zip(arrays, [*quants, None][: len(arrays)], strict=True)
    return [cases.given(a, None if a.dtype == np.float32 else q) for a, q in pairs]


def limit_attrs(dtype: DType) -> Iterator[dict[str, Scalar]]:
    """What is asked for; weakened scores that are no numbers have no stored form."""
    for kernel, most in product(range(3), (-1, 0, 3, 40)):
        yield {"kernel": kernel, "max_detections": most, "nms_score_threshold": 0.25}
    yield {"kernel": 0, "max_detections": -1, "nms_score_threshold": -1.0}
    yield {"kernel": 2, "sigma": -2.0, "max_detections": 5, "nms_score_threshold": 0.0}
    if dtype.is_float:
        yield {"kernel": 2, "sigma": 0.0, "max_detections": 9, "nms_score_threshold": 0.0}


def limits(cases: Regions, dtype: DType) -> None:
    inputs = given(cases, limit_inputs("plain", dtype), [SCORES, PIXELS])
    for asked in limit_attrs(dtype):
        shared = {"score_threshold": 0.1, "iou_threshold": 0.3, "sigma": 0.5}
        attrs = scalars(**{**shared, **asked})
        cases.custom(f"{PREFIX}BOX_WITH_NMS_LIMIT", inputs, attrs, [MADE, PIXELS])


def proposals(cases: Regions, dtype: DType, nchw: bool) -> None:
    arrays = turned(proposal_inputs("plain", dtype), nchw)
    inputs = given(cases, arrays, [SCORES, DELTAS, ANCHORS, PIXELS])
    for before, after, least in ((-1, -1, 2.0), (60, 12, 0.0), (0, 3, 5.0), (900, 0, -1.0)):
        for overlap in (0.3, 0.0):
            strides = {"height_stride": 5.0, "width_stride": 5.5, "min_size": least}
            counts = {"pre_nms_max": before, "post_nms_max": after, "iou_threshold": overlap}
            attrs = scalars(**strides, **counts, nchw=nchw)
            cases.custom(f"{PREFIX}GENERATE_PROPOSALS", inputs, attrs, [MADE, PIXELS])


def turned(arrays: Inputs, nchw: bool) -> Inputs:
    images = [np.ascontiguousarray(a.transpose(0, 3, 1, 2)) if nchw else a for a in arrays[:2]]
    return [*images, *arrays[2:]]


def every_limit() -> Graph:
    cases = Regions()
    for dtype in TYPES:
        limits(cases, dtype)
    return cases.graph()


def every_proposal() -> Graph:
    cases = Regions()
    for dtype, nchw in product(TYPES, (False, True)):
        proposals(cases, dtype, nchw)
    return cases.graph()


def inputs_of(kind: str, is_limit: bool) -> Inputs:
    if is_limit:
        return [array for dtype in TYPES for array in limit_inputs(kind, dtype)]
    pairs = product(TYPES, (False, True))
    return [a for dtype, nchw in pairs for a in turned(proposal_inputs(kind, dtype), nchw)]


@lru_cache(maxsize=8)
def session(make: Callable[[], Graph], target: str, threads: int = 1) -> Session:
    if target == "reference":
        return Session(Model([make()]), backends=("reference",))
    return Session(Model([make()]), target=target, threads=threads, strict=True)


@each_width
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [every_limit, every_proposal])
def test_what_is_kept_is_what_the_record_keeps(
    make: Callable[[], Graph], kind: str, target: str
) -> None:
    """Scores and overlaps that are no numbers, equal ones, boxes without areas and none at all."""
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    inputs = inputs_of(kind, make is every_limit)
    wanted = session(make, "reference").run(inputs)
    for (name, array), made in zip(
        wanted.items(), session(make, target).run(inputs).values(), strict=True
    ):
        assert made.shape == array.shape, name
        tolerance = 1e-5 if array.dtype == np.float32 else 0
        np.testing.assert_allclose(made, array, tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("make", [every_limit, every_proposal])
def test_results_are_the_same_bits_for_any_number_of_threads(make: Callable[[], Graph]) -> None:
    inputs = inputs_of("ties", make is every_limit)
    one, many = (session(make, "native", threads).run(inputs) for threads in (1, 3))
    for first, second in zip(one.values(), many.values(), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("make", "place"), [(every_limit, 1), (every_proposal, 2)])
def test_corners_that_are_not_in_order_are_refused(make: Callable[[], Graph], place: int) -> None:
    """The run after is not touched."""
    inputs = inputs_of("plain", make is every_limit)
    broken = [array.copy() for array in inputs]
    broken[place][-1, 1] = np.nan
    for target in ("reference", "native"):
        wanted = session(make, target).run(inputs)
        with pytest.raises(InputError, match="does not allow"):
            session(make, target).run(broken)
        for again, before in zip(
            session(make, target).run(inputs).values(), wanted.values(), strict=True
        ):
            np.testing.assert_array_equal(again, before)


def detector() -> Graph:
    """Proposals, what an image holds there, and the best boxes of what that is taken for."""
    cases, random = Regions(), np.random.default_rng(7)
    b, maps = cases.builder, given(cases, proposal_inputs("plain", DType.FLOAT32), [PIXELS] * 3)
    features = cases.data(DType.FLOAT32, (IMAGES, *MAP[:2], 6))
    strides = {"height_stride": 7.0, "width_stride": 7.0}
    counts = {"pre_nms_max": 40, "post_nms_max": 8, "iou_threshold": 0.5, "min_size": 1.0}
    cases.custom(f"{PREFIX}GENERATE_PROPOSALS", maps, scalars(**strides, **counts))
    _, boxes, images = cases.outputs
    parts = scalars(height=2, width=2, **strides)
    cases.custom(f"{PREFIX}ROI_ALIGN", [features, boxes, images], parts)
    rows = b.op("RESHAPE", [cases.outputs[-1], cases.constant([-1, 24])], ReshapeAttrs((-1, 24)))
    layers = [cases.constant(random.normal(0, 0.2, (n, 24)).astype("f4")) for n in (4, 16)]
    found, moves = (b.op("FULLY_CONNECTED", [rows, w], FullyConnectedAttrs()) for w in layers)
    cases.custom(f"{PREFIX}AXIS_ALIGNED_BBOX_TRANSFORM", [boxes, moves, images, maps[3]], scalars())
    shares = b.op("SOFTMAX", [found], SoftmaxAttrs(1.0))
    limit = scalars(score_threshold=0.1, iou_threshold=0.3, max_detections=30)
    cases.custom(f"{PREFIX}BOX_WITH_NMS_LIMIT", [shares, cases.outputs[-1], images], limit)
    return cases.graph()


def test_a_detector_of_two_stages_runs_without_numpy() -> None:
    native, reference = (session(detector, target) for target in ("native", "reference"))
    features = np.random.default_rng(5).normal(size=(IMAGES, *MAP[:2], 6)).astype(np.float32)
    counts = set()
    for kind in ("plain", "odd", "flat"):
        inputs = [*proposal_inputs(kind, DType.FLOAT32), features]
        wanted = list(reference.run(inputs).values())
        counts.add(wanted[-1].size)
        for made, array in zip(native.run(inputs).values(), wanted, strict=True):
            np.testing.assert_allclose(made, array, 1e-5, 1e-4)
    assert len(counts) > 1 and min(counts) > 0
