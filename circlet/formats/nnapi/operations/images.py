"""Images resized, and blocks of pixels moved to other axes."""

from __future__ import annotations

from math import floor

import numpy as np

from circlet.formats.nnapi.call import Call, NotLoweredError
from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.operations.movement import as_list
from circlet.formats.nnapi.table import lowers
from circlet.formats.nnapi.windows import image, image_result
from circlet.ir import DType, Tensor
from circlet.ops.blocks import DepthAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.words import counted

_WIDTH, _HEIGHT = 1, 2


@lowers("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(call: Call) -> None:
    is_nchw = call.flag(3)
    data = image(call, call[0], is_nchw)
    attrs = ResizeAttrs(_coordinates(call.flag(4), call.flag(5)))
    image_result(call, call.kind, [data, _target(call, data)], attrs, is_nchw=is_nchw)


def _coordinates(align_corners: bool, half_pixel_centres: bool) -> str:
    if align_corners:
        return "half_pixel_align_corners" if half_pixel_centres else "align_corners"
    return "half_pixel" if half_pixel_centres else "asymmetric"


def _target(call: Call, data: Tensor) -> Tensor:
    """Height and width; as numbers, or as factors whose products are rounded down."""
    if call.code(_HEIGHT) is OperandCode.INT32:
        return _stated_target(call)
    factors = [np.float32(call.real(index)) for index in (_HEIGHT, _WIDTH)]
    if not np.isfinite(factors).all():
        raise call.wrong("a factor of the sizes is no number")
    sizes = data.shape[1:3]
    if len(data.shape) != 4 or None in sizes:
        return _computed_target(call, data, factors)
    known = zip(data.static_shape[1:3], factors, strict=True)
    return call.const([floor(np.float32(size) * factor) for size, factor in known], "i4")


def _stated_target(call: Call) -> Tensor:
    """The same as numbers, which a run may compute."""
    sides = [call[_HEIGHT], call[_WIDTH]]
    if all(side.data is not None for side in sides):
        return call.const([call.whole(_HEIGHT), call.whole(_WIDTH)], "i4")
    return call.op("CONCATENATION", [as_list(call, side) for side in sides])


def _computed_target(call: Call, data: Tensor, factors: list[np.float32]) -> Tensor:
    """The same where the sizes of the image are known only in a run."""
    sizes = call.op("SHAPE", [data], dtype=DType.INT32)
    both = call.op("GATHER", [sizes, call.const([1, 2], "i4")], GatherAttrs())
    real = call.op("CAST", [both], dtype=DType.FLOAT32)
    scaled = call.op("MUL", [real, call.const(factors, "f4")])
    return call.op("CAST", [scaled], dtype=DType.INT32)


@lowers("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _depth(call: Call) -> None:
    is_nchw = call.flag(2)
    data = image(call, call[0], is_nchw)
    image_result(call, call.kind, [data], DepthAttrs(call.whole(1)), is_nchw=is_nchw)


@lowers("SPACE_TO_BATCH_ND")
def _space_to_batch(call: Call) -> None:
    is_nchw = call.flag(3)
    data = image(call, call[0], is_nchw)
    image_result(call, call.kind, [data, call[1], call[2]], NoAttrs(), is_nchw=is_nchw)


@lowers("BATCH_TO_SPACE_ND")
def _batch_to_space(call: Call) -> None:
    is_nchw = call.flag(2)
    data, crops = image(call, call[0], is_nchw), call.const(np.zeros((2, 2)), "i4")
    image_result(call, call.kind, [data, call[1], crops], NoAttrs(), is_nchw=is_nchw)


@lowers("CHANNEL_SHUFFLE")
def _channel_shuffle(call: Call) -> None:
    """Index g * size + i of the axis goes to i * groups + g."""
    source, groups = call[0], call.whole(1)
    rank = len(source.shape)
    axis = call.whole(2) + (rank if call.whole(2) < 0 else 0)
    if not 0 <= axis < rank or source.shape[axis] is None:
        raise NotLoweredError("the size of its axis is not known")
    size = source.static_shape[axis]
    if groups < 1 or size % groups:
        raise call.wrong("groups do not divide the axis", f"{counted(groups, 'group')} of {size}")
    order = np.arange(size).reshape(groups, -1).T.reshape(-1)
    call.result("GATHER", [source, call.const(order, "i4")], GatherAttrs(axis))
