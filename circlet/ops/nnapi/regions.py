"""ROI_ALIGN and ROI_POOLING: regions of images, brought to one size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops.guard import look, working
from circlet.ops.nnapi.boxes import check_batches, check_boxes
from circlet.ops.nnapi.record import (
    QUANTISED,
    Floats,
    attributes,
    channels_last,
    half_away,
    nnapi_kind,
    quantised,
    real,
    refuse,
)
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import (
    moves_bytes,
    operand,
    present,
    scale_of,
    sizes_agree,
    when_ranked,
    zero_of,
)
from circlet.ops.requantize import limits

_MOST = 1 << 16
_STEPS = np.float32(255)  # of the weights of pixels, where these are quantised
_BIN = 64  # operations of a part of a region
_SAMPLE_BYTES = 24  # that numpy holds of a sample of a channel
_Axis = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]


def _regions(op: Op, arrays: Arrays, images: np.ndarray) -> Floats:
    """Regions in pixels of the map, [count, (x1, y1, x2, y2)]."""
    boxes, batches = real(op, 1, arrays), present(arrays[2]).reshape(-1)
    check_batches(op, batches, len(images))
    check_boxes(op, boxes)
    attrs, one = attributes(op), np.float32(1)
    right, down = one / attrs.real("width_stride"), one / attrs.real("height_stride")
    regions: Floats = boxes * np.array([right, down, right, down], np.float32)
    height, width = images.shape[1:3]
    limits = np.array([width, height, width, height], np.float32)
    inside = (regions >= 0) & (regions <= limits)
    refuse(op, inside.all(), f"a region leaves the map of {height} by {width}")
    return regions


def _in_layout(op: Op, made: np.ndarray) -> np.ndarray:
    return made.transpose(0, 3, 1, 2) if attributes(op).whole("nchw") else made


def _sampled(start: np.float32, end: np.float32, parts: int, asked: int, size: int) -> _Axis:
    """Where the samples of each part lie along one axis of a region."""
    length = max(end - start, np.float32(1))
    step = length / np.float32(parts)
    count = asked if asked > 0 else int(np.ceil(step))
    each = step / np.float32(count)
    first = step * np.arange(parts, dtype=np.float32) + start
    offsets = each / np.float32(2) + each * np.arange(count, dtype=np.float32)
    at = (first[:, None] + offsets).astype(np.float32)
    low = np.floor(at).astype(np.int64)
    fraction = (at - low.astype(np.float32)).astype(np.float32)
    outside = low >= size - 1
    low = np.where(outside, size - 1, low)
    return low, np.where(outside, low, low + 1), np.where(outside, np.float32(0), fraction)


def _rows_of_samples(image: np.ndarray, down: _Axis, right: _Axis) -> Iterator[np.ndarray]:
    """Sums of the samples of each part, row of parts by row; [parts, channels].

    Numbers are of float32, or integers where weights are quantised.
    """
    whole = not np.issubdtype(image.dtype, np.floating)
    one, parts = np.float32(1), right[0].shape[0]
    for top, bottom, part in zip(*down, strict=True):
        look()
        total = np.zeros((parts, image.shape[2]), np.int64 if whole else np.float32)
        for rows, y in ((top, one - part), (bottom, part)):
            for columns, x in ((right[0], one - right[2]), (right[1], right[2])):
                weights = (x[:, None, :] * y[:, None]).astype(np.float32)
                if whole:
                    weights = half_away(weights / (one / _STEPS)).astype(np.int64)
                pixels = image[rows[:, None], columns[:, None, :]]
                total += (weights[..., None] * pixels).sum(axis=(1, 2), dtype=total.dtype)
        yield total


def _align(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """The mean of bilinear samples in each part of a region."""
    attrs, images = attributes(op), channels_last(op, present(arrays[0]))
    regions, batches = _regions(op, arrays, images), present(arrays[2]).reshape(-1)
    parts = attrs.whole("height"), attrs.whole("width")
    tensor, result = operand(op, 0), op.outputs[0]
    is_stored = tensor.dtype in QUANTISED
    centred = images.astype(np.int64) - zero_of(tensor) if is_stored else images
    made = np.zeros((len(regions), *parts, images.shape[3]), result.dtype.numpy)
    for index, (x1, y1, x2, y2) in enumerate(regions):
        down = _sampled(y1, y2, parts[0], attrs.whole("height_samples"), images.shape[1])
        right = _sampled(x1, x2, parts[1], attrs.whole("width_samples"), images.shape[2])
        each = down[0].shape[1] * right[0].shape[1]
        size = _SAMPLE_BYTES * each * parts[1] * images.shape[3]
        with working(size, op, "samples of a row of parts"):
            rows = np.stack(list(_rows_of_samples(centred[batches[index]], down, right)))
        made[index] = _mean_as_stored(op, rows, each) if is_stored else rows / each
    return [_in_layout(op, made)]


def stored_factor(op: Op) -> float:
    """From a sum of weighted pixels, in their steps, to steps of the result."""
    return scale_of(operand(op, 0)) / float(_STEPS) / scale_of(op.outputs[0])


def _mean_as_stored(op: Op, sums: np.ndarray, samples: int) -> np.ndarray:
    result = op.outputs[0]
    factor = stored_factor(op) / samples
    scaled = np.sign(sums) * np.floor(np.abs(sums) * factor + 0.5) + zero_of(result)
    stored: np.ndarray = np.clip(scaled, *limits(result.dtype))
    return stored


def _edges(start: np.float32, end: np.float32, parts: int, size: int) -> list[tuple[int, int]]:
    """From which pixel to which each part goes; parts share pixels where they must."""
    first, last = int(half_away(start)), int(half_away(end))
    step = np.float32(max(last - first + 1, 1)) / np.float32(parts)
    at = np.arange(parts + 1, dtype=np.float32) * step + np.float32(first)
    low, high = np.floor(at[:-1]).astype(int), np.ceil(at[1:]).astype(int)
    return list(zip(np.minimum(low, size).tolist(), np.minimum(high, size).tolist(), strict=True))


def _pool(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """The largest pixel in each part of a region; an empty part holds zero."""
    attrs, images = attributes(op), channels_last(op, present(arrays[0]))
    regions, batches = _regions(op, arrays, images), present(arrays[2]).reshape(-1)
    parts, tensor = (attrs.whole("height"), attrs.whole("width")), operand(op, 0)
    zero = zero_of(tensor) if tensor.dtype in QUANTISED else 0
    made = np.full((len(regions), *parts, images.shape[3]), zero, images.dtype)
    for index, (x1, y1, x2, y2) in enumerate(regions):
        look()
        image, columns = images[batches[index]], _edges(x1, x2, parts[1], images.shape[2])
        for row, (top, bottom) in enumerate(_edges(y1, y2, parts[0], images.shape[1])):
            for column, (left, right) in enumerate(columns):
                part = image[top:bottom, left:right]
                if part.size:
                    made[index, row, column] = part.max(axis=(0, 1))
    return [_in_layout(op, made)]


def _infer(op: Op) -> list[TensorType]:
    attrs, image = attributes(op), operand(op, 0)
    count, parts = operand(op, 1).shape[0], (attrs.whole("height"), attrs.whole("width"))
    if attrs.whole("nchw"):
        return [TensorType(image.dtype, (count, image.shape[1], *parts))]
    return [TensorType(image.dtype, (count, *parts, image.shape[3]))]


def _fits(op: Op) -> bool:
    image, boxes, batches = (operand(op, index).shape for index in range(3))
    if (len(image), len(boxes), len(batches)) != (4, 2, 1) or 0 in image[1:]:
        return False
    return boxes[1] in (None, 4) and sizes_agree(boxes[:1], batches)


def _counts_hold(op: Op) -> bool:
    attrs = attributes(op)
    parts = all(1 <= attrs.whole(name) <= _MOST for name in ("height", "width"))
    return parts and all(
        0 <= attrs.whole(name) <= _MOST for name in ("height_samples", "width_samples")
    )


def _strides_hold(op: Op) -> bool:
    return all(attributes(op).real(name) > 0 for name in ("height_stride", "width_stride"))


def _samples(op: Op) -> int:
    """Samples or pixels that a region reads at most."""
    attrs, shape = attributes(op), operand(op, 0).static_shape
    if len(shape) != 4:
        return 0
    first = 2 if attrs.whole("nchw") else 1
    sides = [
        attrs.whole(side) * attrs.whole(f"{side}_samples") or size + 2 * attrs.whole(side)
        for side, size in zip(("height", "width"), shape[first : first + 2], strict=True)
    ]
    return sides[0] * sides[1]


def _align_cost(op: Op) -> Cost:
    count, made = operand(op, 1).elements // 4, op.outputs[0].elements
    channels = operand(op, 0).static_shape[1 if attributes(op).whole("nchw") else -1]
    macs = 4 * count * _samples(op) * channels
    return Cost(bytes=moves_bytes(op).bytes, macs=macs, operations=_BIN * made)


_RULES = (
    when_ranked("sizes", _fits, "it needs images with pixels, and four corners and a batch each"),
    Rule("counts", _counts_hold, f"parts must be between 1 and {_MOST}, samples 0", sized=False),
    Rule("strides", _strides_hold, "strides must be positive", sized=False),
    quantised(0, 1, outputs=(0,)),
)
for _kind, _evaluate in (("ROI_ALIGN", _align), ("ROI_POOLING", _pool)):
    nnapi_kind(
        _kind,
        _evaluate,
        _infer,
        _align_cost,
        inputs=(3, 3),
        dtypes=(
            "FLOAT32 FLOAT32 INT32 -> FLOAT32",
            "UINT8 UINT16 INT32 -> UINT8",
            "INT8 UINT16 INT32 -> INT8",
        ),
        rules=_RULES,
    )
