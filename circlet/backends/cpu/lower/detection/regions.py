"""Regions of images, brought to one size, as NNAPI and ONNX have them: one kernel call each."""

from __future__ import annotations

from typing import NamedTuple

from circlet.backends.cpu.lower.copy import element_bytes
from circlet.backends.cpu.lower.detection.boxes import refuses
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.nnapi import record as nnapi
from circlet.ops.nnapi.regions import stored_factor
from circlet.ops.onnx import record as onnx
from circlet.ops.onnx.regions import is_half_pixel
from circlet.ops.operands import operand, scale_of, zero_of
from circlet.target.targets import Target

_SUM_BYTES = 8  # that a channel takes of the scratch memory
_FAR = 1e9  # pixels: no region reaches so far


class _Regions(NamedTuple):
    """What a lowering knows of the regions of an op.

    Attributes:
        scales: Pixels of the image for one of a box, to the right and down.
        is_android: Whether NNAPI's rules count, and not ONNX's.
        columns_before: Columns of a box in front of its corners.
    """

    scales: tuple[float, float]
    is_android: bool
    is_channels_first: bool
    columns_before: int = 0


def _nnapi_regions(op: Op) -> _Regions:
    attrs = nnapi.attributes(op)
    right, down = (float(1 / attrs.real(f"{side}_stride")) for side in ("width", "height"))
    return _Regions((right, down), True, bool(attrs.whole("nchw")))


def _onnx_regions(op: Op) -> _Regions:
    scale = float(onnx.attributes(op).get("spatial_scale", 1.0))
    return _Regions((scale, scale), False, True, int(op.input(2) is None))


def _steps(shape: tuple[int, ...], is_channels_first: bool) -> tuple[int, int, int, int]:
    """Elements between neighbours: images, rows, pixels and channels."""
    _, *rest = shape
    if is_channels_first:
        channels, height, width = rest
        return channels * height * width, width, 1, height * width
    height, width, channels = rest
    return channels * height * width, width * channels, channels, 1


def _sizes(shape: tuple[int, ...], is_channels_first: bool) -> tuple[int, int, int]:
    """Rows, columns and channels."""
    if is_channels_first:
        return shape[2], shape[3], shape[1]
    return shape[1], shape[2], shape[3]


def _params(op: Op, regions: _Regions) -> dict[str, ParamValue]:
    image, made, boxes = operand(op, 0), op.outputs[0].static_shape, operand(op, 1)
    first = regions.is_channels_first
    height, width, channels = _sizes(image.static_shape, first)
    rows, columns, _ = _sizes(made, first)
    names = ("batch", "row", "pixel", "channel")
    steps = dict(zip(names, _steps(image.static_shape, first), strict=True))
    own = dict(zip(("region", "row", "column", "channel"), _steps(made, first), strict=True))
    stored = boxes.dtype in nnapi.QUANTISED
    return {
        "image_images": image.static_shape[0],
        "image_height": height,
        "image_width": width,
        **{f"image_{name}": step for name, step in steps.items()},
        "parts_height": rows,
        "parts_width": columns,
        "parts_channels": channels,
        **{f"parts_{name}": step for name, step in own.items()},
        "boxes_columns": 4 + regions.columns_before,
        "boxes_first": regions.columns_before,
        "boxes_right": regions.scales[0],
        "boxes_down": regions.scales[1],
        "boxes_scale": scale_of(boxes) if stored else 1.0,
        "boxes_zero": zero_of(boxes) if stored else 0,
    }


def _call(
    op: Op,
    context: Context,
    regions: _Regions,
    function: str,
    params: dict[str, ParamValue],
    mode: tuple[int, ...] = (),
) -> None:
    image, boxes, batches = operand(op, 0), operand(op, 1), op.input(2)
    result = op.outputs[0]
    places: Ref = NoRef() if batches is None else source_ref(context, batches)
    operands = (source_ref(context, image), source_ref(context, boxes), places)
    batch_bytes = 4 if batches is None else element_bytes(batches)
    flags: tuple[str | int, ...] = (
        ELEMENT_TYPES[image.dtype],
        batch_bytes,
        *mode,
        int(regions.is_android),
    )
    _, _, channels = _sizes(image.static_shape, regions.is_channels_first)
    context.call(
        op,
        Kernel("regions.h", function, flags),
        {**_params(op, regions), **params},
        (*operands, TensorRef(result), StopRef()),
        (result,),
        tasks=boxes.static_shape[0],
        scratch_bytes=_SUM_BYTES * channels,
    )


def _lower_nnapi_align(op: Op, context: Context) -> None:
    attrs, image, result = nnapi.attributes(op), operand(op, 0), op.outputs[0]
    is_stored = image.dtype in nnapi.QUANTISED
    params: dict[str, ParamValue] = {
        "height_samples": attrs.whole("height_samples"),
        "width_samples": attrs.whole("width_samples"),
        "offset": 0.0,
        "least": 1.0,
        "factor": stored_factor(op) if is_stored else 1.0,
        "zero": zero_of(image) if is_stored else 0,
        "made_zero": zero_of(result) if is_stored else 0,
    }
    _call(op, context, _nnapi_regions(op), "roi_align", params, (0,))


def _lower_onnx_align(op: Op, context: Context) -> None:
    attrs = onnx.attributes(op)
    half, samples = is_half_pixel(attrs), attrs.get("sampling_ratio", 0)
    params: dict[str, ParamValue] = {
        "height_samples": samples,
        "width_samples": samples,
        "offset": 0.5 if half else 0.0,
        "least": -_FAR if half else 1.0,
        "factor": 1.0,
        "zero": 0,
        "made_zero": 0,
    }
    is_max = attrs.get("mode", "avg") != "avg"
    _call(op, context, _onnx_regions(op), "roi_align", params, (int(is_max),))


def _lower_nnapi_pool(op: Op, context: Context) -> None:
    image = operand(op, 0)
    zero = zero_of(image) if image.dtype in nnapi.QUANTISED else 0
    _call(op, context, _nnapi_regions(op), "roi_pool", {"zero": zero, "unused": 0})


def _lower_onnx_pool(op: Op, context: Context) -> None:
    _call(op, context, _onnx_regions(op), "roi_pool", {"zero": 0, "unused": 0})


def _refuses_onnx(op: Op, target: Target) -> str | None:
    image, boxes, batches = operand(op, 0), operand(op, 1), op.input(2)
    for tensor in (image, boxes, op.outputs[0]):
        if tensor.dtype is not DType.FLOAT32:
            return f"does not take {tensor.dtype.name}"
    if batches is not None and batches.dtype not in (DType.INT32, DType.INT64):
        return f"does not take images of type {batches.dtype.name}"
    if len(image.static_shape) != 4:
        return "images have two dimensions, channels and a batch"
    return refuses(op, target)


for _kind, _refuses, _name, _lower in (
    (f"{nnapi.PREFIX}ROI_ALIGN", refuses, "roi_align_nnapi", _lower_nnapi_align),
    (f"{nnapi.PREFIX}ROI_POOLING", refuses, "roi_pool_nnapi", _lower_nnapi_pool),
    (f"{onnx.PREFIX}RoiAlign", _refuses_onnx, "roi_align_onnx", _lower_onnx_align),
    (f"{onnx.PREFIX}MaxRoiPool", _refuses_onnx, "roi_pool_onnx", _lower_onnx_pool),
):
    LOWERINGS.add(Lowering(f"CUSTOM:{_kind}", _name, _refuses, _lower))
