"""Native boxes, regions, keypoints and tables of keys give what the records give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError
from circlet.ir import DType, Graph, Model, Op, Origin, Quantization, Tensor
from circlet.ops.build import infer_types
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.nnapi.record import PREFIX as NNAPI
from circlet.ops.nnapi.record import Scalar, scalars
from circlet.ops.onnx.record import PREFIX as ONNX
from circlet.ops.onnx.record import OnnxAttrs
from circlet.passes.decompose import Decompose
from tests.backends.cpu.cases import Cases, each_target, each_width
from tests.backends.cpu.harness import run_native

PIXELS = Quantization.per_tensor(0.125, 0)  # of boxes that are stored
SIZE = (13, 17)  # of images


class Regions(Cases):
    """Cases of operators over boxes."""

    def custom(
        self,
        code: str,
        inputs: Sequence[Tensor],
        attrs: object,
        quants: Sequence[Quantization | None] = (),
    ) -> None:
        """A custom operator whose results, of the sizes that its record infers, are compared."""
        stated = [Tensor("", DType.FLOAT32, ())]
        label = f"{code}{len(self.outputs)}"
        op = Op("CUSTOM", [*inputs], stated, attrs, Origin.of(0, label), custom_code=code)
        made = [
            Tensor(f"{label} {index}", found.dtype, found.shape)
            for index, found in enumerate(infer_types(op))
        ]
        for tensor, quant in zip(made, quants, strict=False):
            tensor.quant = None if tensor.dtype.is_float else quant
        self.builder.op_many("CUSTOM", inputs, made, attrs, custom_code=code)
        self.outputs.extend(made)

    def boxes(self, count: int, stride: float, *, stored: bool = False) -> Tensor:
        """Boxes inside of images that are `stride` times as large as their maps."""
        ends = np.sort(self._random.uniform(0, 1, (count, 2, 2)), axis=1)
        boxes = (ends * (SIZE[1] * stride, SIZE[0] * stride)).reshape(count, 4)
        if stored:
            return self.given((boxes * 8).astype(np.uint16), PIXELS)
        return self.given(boxes.astype(np.float32))

    def images(self, dtype: DType, channels: int, nchw: bool, batch: int = 3) -> Tensor:
        """Maps of any type."""
        shape = (batch, channels, *SIZE) if nchw else (batch, *SIZE, channels)
        return self.data(dtype, shape, Quantization.per_tensor(0.05, 3))

    def places(self, count: int, most: int, dtype: type = np.int32) -> Tensor:
        """Which of `most` images each of `count` boxes is of."""
        return self.given(self._random.integers(0, most, count).astype(dtype))


MADE = Quantization.per_tensor(0.07, 5)


def _android_regions(cases: Regions, kind: str, dtype: DType, nchw: bool, **more: Scalar) -> None:
    images = cases.images(dtype, 19, nchw)
    boxes = cases.boxes(6, 2.0, stored=not dtype.is_float)
    values = {"height": 3, "width": 5, "height_stride": 2.0, "width_stride": 2.0, "nchw": nchw}
    quants = [MADE if kind == "ROI_ALIGN" else images.quant]
    inputs = [images, boxes, cases.places(6, 3)]
    cases.custom(f"{NNAPI}{kind}", inputs, scalars(**values, **more), quants)


def _onnx(cases: Regions, kind: str, opset: int, **values: object) -> None:
    images = cases.images(DType.FLOAT32, 9, True)
    given = cases.values(DType.FLOAT32, (7, 4), 9.0)
    if kind == "MaxRoiPool":
        columns = np.concatenate([np.arange(7)[:, None] % 3, given], 1)
        inputs = [images, cases.given(columns.astype(np.float32))]
    else:
        inputs = [images, cases.given(given), cases.places(7, 3, np.int64)]
    attrs = OnnxAttrs(tuple(sorted(values.items())), opset)
    cases.custom(f"{ONNX}{kind}", inputs, attrs)


@each_target
def test_regions_of_onnx_equal_the_record(target: str) -> None:
    """Regions leave the images, and some have their corners the other way round."""
    cases = Regions()
    for opset, mode in ((10, None), (16, "half_pixel"), (16, "output_half_pixel")):
        for ratio, join in ((0, "avg"), (2, "avg"), (2, "max")):
            words = {} if mode is None else {"coordinate_transformation_mode": mode}
            sizes = {"output_height": 3, "output_width": 4, "sampling_ratio": ratio}
            _onnx(cases, "RoiAlign", opset, mode=join, spatial_scale=0.5, **sizes, **words)
    _onnx(cases, "MaxRoiPool", 1, pooled_shape=(3, 4), spatial_scale=0.5)
    cases.check(target)


def _moved(cases: Regions, dtype: DType) -> None:
    stored = not dtype.is_float
    boxes, images = cases.boxes(8, 2.0, stored=stored), np.array([[26, 34], [9, 30]])
    deltas = cases.data(dtype, (8, 12), Quantization.per_tensor(0.05, 3), scale=0.5)
    sizes = images * 8 if stored else images
    given = cases.given(
        sizes.astype(np.uint16 if stored else np.float32), PIXELS if stored else None
    )
    inputs = [boxes, deltas, cases.places(8, 2), given]
    cases.custom(f"{NNAPI}AXIS_ALIGNED_BBOX_TRANSFORM", inputs, scalars(), [PIXELS])


def _keypoints(cases: Regions, dtype: DType, nchw: bool) -> None:
    shape = (4, 3, 9, 9) if nchw else (4, 9, 9, 3)
    maps = cases.data(dtype, shape, Quantization.per_tensor(0.05, 3))
    boxes = cases.boxes(4, 2.0, stored=not dtype.is_float)
    attrs = scalars(nchw=nchw, tolerance=1e-5)
    cases.custom(f"{NNAPI}HEATMAP_MAX_KEYPOINT", [maps, boxes], attrs, [MADE, PIXELS])


def _found_by_keys(cases: Regions) -> None:
    ids = cases.given(np.array([7, -3, 8, 40, 0], np.int32))
    keys = cases.given(np.array([-3, 0, 7, 40], np.int32))
    for dtype, shape in ((DType.FLOAT32, (4, 5)), (DType.UINT8, (4, 2, 3)), (DType.INT32, (4,))):
        values = cases.data(dtype, shape, None)
        name = f"found{len(cases.outputs)}"
        made = [Tensor(name, dtype, (5, *shape[1:])), Tensor(f"{name} hits", DType.UINT8, (5,))]
        cases.builder.op_many("HASHTABLE_LOOKUP", [ids, keys, values], made)
        cases.outputs.extend(made)


def all_regions() -> Regions:
    """Operators over boxes as NNAPI has them, and a table of keys."""
    cases = Regions()
    for dtype in (DType.FLOAT32, DType.UINT8, DType.INT8):
        _moved(cases, dtype)
        for nchw in (False, True):
            for samples in (0, 2):
                asked = {"height_samples": samples, "width_samples": samples and 3}
                _android_regions(cases, "ROI_ALIGN", dtype, nchw, **asked)
            _android_regions(cases, "ROI_POOLING", dtype, nchw)
            _keypoints(cases, dtype, nchw)
    _found_by_keys(cases)
    return cases


@each_width
def test_boxes_regions_and_keypoints_equal_the_record(target: str) -> None:
    all_regions().check(target)


def _one_region(kind: str) -> tuple[Graph, list[np.ndarray]]:
    cases = Regions()
    if kind == "RoiAlign":
        _onnx(cases, "RoiAlign", 16, output_height=2, output_width=2, sampling_ratio=0)
    elif kind == "HEATMAP_MAX_KEYPOINT":
        _keypoints(cases, DType.FLOAT32, False)
    elif kind == "AXIS_ALIGNED_BBOX_TRANSFORM":
        _moved(cases, DType.FLOAT32)
    else:
        _android_regions(cases, kind, DType.FLOAT32, False)
    return cases.graph(), cases.inputs


BROKEN = (("ROI_ALIGN", 1), ("ROI_POOLING", 2), ("AXIS_ALIGNED_BBOX_TRANSFORM", 0),
          ("AXIS_ALIGNED_BBOX_TRANSFORM", 3), ("HEATMAP_MAX_KEYPOINT", 1), ("RoiAlign", 2),
          ("RoiAlign", 1))  # fmt: skip


@pytest.mark.parametrize(("kind", "place"), BROKEN)
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_what_the_operator_does_not_allow_is_refused_in_its_name(
    kind: str, place: int, backend: str
) -> None:
    """The run before and the run after are not touched."""
    graph, inputs = _one_region(kind)
    session = Session(Model([graph]), backends=(backend,), cache=False, threads=2)
    wanted = list(session.run(inputs).values())
    broken = [array.copy() for array in inputs]
    broken[place][-1] = 99 if broken[place].ndim == 1 else (1e12, 9, 2, 3)
    with pytest.raises(InputError, match="does not allow") as refused:
        session.run(broken)
    assert kind in f"{refused.value.where}"
    for again, before in zip(session.run(inputs).values(), wanted, strict=True):
        np.testing.assert_array_equal(again, before)


def _detected(regular: bool, background: bool, classes: int) -> Regions:
    cases = Regions()
    scores = cases.given(np.random.default_rng(1).integers(0, 20, (1, 60, 5)).astype("f4") / 20)
    deltas = cases.data(DType.FLOAT32, (1, 60, 6))
    anchors = cases.given(np.random.default_rng(2).uniform(0.1, 0.9, (60, 4)).astype(np.float32))
    scales = {f"scale_{s}": value for s, value in zip("yxhw", (10.0, 9.0, 5.0, 6.0), strict=True)}
    counts = {"max_detections": 70, "max_classes_per_detection": classes}
    flags = {"regular_nms": regular, "background_in_label": background}
    bounds = {"score_threshold": 0.5, "iou_threshold": 0.25, "max_detections_per_class": 9}
    attrs = scalars(**scales, **counts, **flags, **bounds)
    cases.custom(f"{NNAPI}DETECTION_POSTPROCESSING", [scores, deltas, anchors], attrs)
    return cases


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize(("background", "classes"), [(False, 1), (True, 3), (True, 9)])
def test_detections_run_as_those_of_litert(regular: bool, background: bool, classes: int) -> None:
    """Half of the scores lie on the threshold, which is not above it."""
    cases = _detected(regular, background, classes)
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    assert 0 < wanted[3][0] < len(wanted[2][0])
    assert Decompose().run(graph)
    for got, expected in zip(run_native(graph, cases.inputs), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
