"""Operations over boxes and regions of images; each has a record of its own."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.operations.own import own
from circlet.formats.nnapi.table import lowers
from circlet.ops.nnapi.record import Scalar

_FLOAT16_TOLERANCE, _TOLERANCE = 1e-3, 1e-5


def _reals(call: Call, names: Sequence[str], first: int) -> dict[str, Scalar]:
    return {name: call.real(first + place) for place, name in enumerate(names)}


@lowers("AXIS_ALIGNED_BBOX_TRANSFORM")
def _bbox_transform(call: Call) -> None:
    own(call, 4, 1)


@lowers("BOX_WITH_NMS_LIMIT")
def _box_with_nms_limit(call: Call) -> None:
    own(
        call,
        3,
        4,
        score_threshold=call.real(3),
        max_detections=call.whole(4),
        kernel=call.whole(5),
        **_reals(call, ("iou_threshold", "sigma", "nms_score_threshold"), 6),
    )


@lowers("DETECTION_POSTPROCESSING")
def _detection_postprocessing(call: Call) -> None:
    own(
        call,
        3,
        4,
        regular_nms=call.flag(7),
        max_detections=call.whole(8),
        max_classes_per_detection=call.whole(9),
        max_detections_per_class=call.whole(10),
        background_in_label=call.flag(13),
        **_reals(call, ("scale_y", "scale_x", "scale_h", "scale_w"), 3),
        **_reals(call, ("score_threshold", "iou_threshold"), 11),
    )


@lowers("GENERATE_PROPOSALS")
def _generate_proposals(call: Call) -> None:
    own(
        call,
        4,
        3,
        pre_nms_max=call.whole(6),
        post_nms_max=call.whole(7),
        nchw=call.flag(10),
        **_reals(call, ("height_stride", "width_stride"), 4),
        **_reals(call, ("iou_threshold", "min_size"), 8),
    )


@lowers("HEATMAP_MAX_KEYPOINT")
def _heatmap_max_keypoint(call: Call) -> None:
    """Maps of FLOAT16 count as flat sooner."""
    is_half = call.code(0) is OperandCode.TENSOR_FLOAT16
    tolerance = _FLOAT16_TOLERANCE if is_half else _TOLERANCE
    own(call, 2, 2, nchw=call.flag(2), tolerance=tolerance)


@lowers("ROI_ALIGN")
def _roi_align(call: Call) -> None:
    own(
        call,
        3,
        1,
        height=call.whole(3),
        width=call.whole(4),
        height_samples=call.whole(7),
        width_samples=call.whole(8),
        nchw=call.flag(9),
        **_reals(call, ("height_stride", "width_stride"), 5),
    )


@lowers("ROI_POOLING")
def _roi_pooling(call: Call) -> None:
    own(
        call,
        3,
        1,
        height=call.whole(3),
        width=call.whole(4),
        nchw=call.flag(7),
        **_reals(call, ("height_stride", "width_stride"), 5),
    )
