"""Native detection gives what the record gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.ir import DType, Quantization, Tensor
from circlet.ops import find
from circlet.ops.detection import KIND, DetectionAttrs
from tests.backends.cpu.cases import Cases, each_target

ATTRS = DetectionAttrs(10, 1, 100, False, 0.2, 0.5, 6, 10.0, 10.0, 5.0, 5.0)
FORMS = (
    ATTRS,
    replace(ATTRS, max_classes_per_detection=3),
    replace(ATTRS, use_regular_nms=True, detections_per_class=4),
    replace(ATTRS, nms_score_threshold=0.99),
    replace(ATTRS, max_detections=200, nms_iou_threshold=0.9),
)


def _operands(cases: Cases, dtype: DType, count: int = 130, columns: int = 7) -> list[Tensor]:
    random = np.random.default_rng(0)
    if dtype is DType.UINT8:
        quants = ((0.08, 190), (1 / 256, 0), (0.0065, 0))
        shapes = ((1, count, 4), (1, count, columns), (count, 4))
        return [
            cases.given(
                random.integers(0, 256, shape).astype(np.uint8), Quantization.per_tensor(*q)
            )
            for shape, q in zip(shapes, quants, strict=True)
        ]
    codes = random.normal(0, 3, (1, count, 4)).astype(np.float32)
    scores = random.integers(0, 20, (1, count, columns)).astype(np.float32) / 20
    anchors = random.uniform(0.1, 0.9, (count, 4)).astype(np.float32)
    return [cases.given(array) for array in (codes, scores, anchors)]


def _detect(cases: Cases, operands: list[Tensor], attrs: DetectionAttrs) -> None:
    rows = attrs.max_detections * attrs.max_classes_per_detection
    shapes = ((1, rows, 4), (1, rows), (1, rows), (1,))
    made = [Tensor(f"o{len(cases.outputs) + i}", DType.FLOAT32, s) for i, s in enumerate(shapes)]
    code = KIND.partition(":")[2]
    cases.builder.op_many("CUSTOM", operands, made, attrs, custom_code=code)
    cases.outputs.extend(made)


@each_target
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
def test_detections_equal_the_record(target: str, dtype: DType) -> None:
    cases = Cases()
    operands = _operands(cases, dtype)
    for attrs in FORMS:
        _detect(cases, operands, attrs)
    cases.check(target, tolerance=0.0)


@each_target
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
def test_many_boxes_of_many_classes_equal_the_record(target: str, dtype: DType) -> None:
    cases = Cases()
    many = replace(ATTRS, num_classes=41, detections_per_class=70, nms_iou_threshold=0.8)
    operands = _operands(cases, dtype, count=700, columns=42)
    for regular in (False, True):
        _detect(cases, operands, replace(many, use_regular_nms=regular, max_detections=90))
        _detect(cases, operands, replace(many, use_regular_nms=regular, nms_iou_threshold=0.01))
    cases.check(target, tolerance=0.0)


@each_target
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
def test_many_classes_of_a_box_equal_the_record(target: str, dtype: DType) -> None:
    cases = Cases()
    many = replace(ATTRS, num_classes=41, max_classes_per_detection=17)
    operands = _operands(cases, dtype, columns=42)
    for kept in (17, 40, 60):
        _detect(cases, operands, replace(many, max_classes_per_detection=kept))
    cases.check(target, tolerance=0.0)


@each_target
def test_scores_that_are_no_numbers_choose_no_box(target: str) -> None:
    cases = Cases()
    codes, scores, anchors = _operands(cases, DType.FLOAT32)
    cases.inputs[1][:, ::3, 1:] = np.nan
    cases.inputs[1][:, 1::3, 3] = np.nan
    for form in (FORMS[0], FORMS[2]):
        _detect(cases, [codes, scores, anchors], form)
    cases.check(target, tolerance=0.0)


def test_attributes_come_from_the_custom_code_record() -> None:
    record = find(KIND)
    assert record is not None
    assert record.attrs is DetectionAttrs
    assert find("CUSTOM") is None


@each_target
@pytest.mark.parametrize("count", [50, 600, 5000])
def test_suppressions_equal_the_record(target: str, count: int) -> None:
    cases = Cases()
    random = np.random.default_rng(0)
    corners = random.uniform(0, 1, (count, 2)).astype(np.float32)
    sides = random.uniform(-0.4, 0.4, (count, 2)).astype(np.float32)
    boxes = cases.given(np.concatenate([corners, corners + sides], 1))
    scores = cases.given(random.integers(0, 20, count).astype(np.float32) / 20)
    for most, overlap, threshold, sigma in (
        (5, 0.5, 0.1, 0.0),
        (60, 0.2, 0.3, 0.5),
        (400, 0.6, 0.3, 0.0),
    ):
        limits = [cases.given(np.array(x, np.float32)) for x in (overlap, threshold, sigma)]
        limit = cases.constant(np.array(most, np.int32))
        for kind, rest in (("V4", limits[:2]), ("V5", limits)):
            made = [Tensor(f"i{len(cases.outputs)}", DType.INT32, (most,))]
            made += [Tensor(f"s{len(cases.outputs)}", DType.FLOAT32, (most,))] * (kind == "V5")
            made += [Tensor(f"n{len(cases.outputs)}", DType.INT32, ())]
            name = f"NON_MAX_SUPPRESSION_{kind}"
            cases.builder.op_many(name, [boxes, scores, limit, *rest], made)
            cases.outputs += made
    cases.check(target)
