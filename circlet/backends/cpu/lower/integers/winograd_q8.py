"""8-bit convolutions of 3 x 3 and stride 1 by `winograd_q8.h`, where that takes less time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu import costs
from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.affine_search import multiples
from circlet.backends.cpu.lower.integers.conv_q8 import lower_integer_conv, refuses_conv
from circlet.backends.cpu.lower.integers.q8 import (
    fold_zero_points,
    has_dot,
    output_bounds,
    signed_weights,
    weights_zero,
)
from circlet.backends.cpu.lower.integers.requantisation import in_order
from circlet.backends.cpu.lower.integers.tiles import choose_tile, row_cycles
from circlet.backends.cpu.lower.products.product import View
from circlet.backends.cpu.lower.products.windows import conv_border, first_taps
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, ParamValue, Rank
from circlet.backends.cpu.tuning.knobs import Knob
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.target.targets import Target

Int16 = npt.NDArray[np.int16]

DIRECT, WINOGRAD = "conv_q8", "winograd_q8"
_PIXELS = 4
_PRODUCT = 576
_PLANES = 36
_DEPTH = 16
_FEWEST, _MOST = 4, 8
_PLACE_BYTES = 16
_MOST_WEIGHT_BYTES = 3 << 19
_NEAR_WEIGHT_BYTES = 1 << 19
_CACHED_BYTES = 256 << 10
_SUMS_TOLD_APART = 1 << 25
_MOST_WEIGHT = 32767 // 144
_TASKS_WANTED = 4
_ENTER_CYCLES, _LEAVE_CYCLES = 110, 180
_DIRECT_CYCLES = {True: 0.75, False: 1.4}  # by whether the target has dot products of bytes
_POINTS = np.array(
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 6]], np.float64
)


class _Sizes(NamedTuple):
    """What decides how long a convolution takes."""

    images: int
    height: int
    width: int
    channels: int
    filters: int

    @staticmethod
    def of(op: Op, out: Layout) -> _Sizes:
        """Those of an op whose output is laid out so."""
        channels = operand(op, 1).static_shape[3]
        return _Sizes(out.batch, out.height, out.width, channels, out.channels)

    @property
    def depth(self) -> int:
        """Sixteens of input channels."""
        return -(-self.channels // _DEPTH)

    @property
    def row_patches(self) -> int:
        """Patches of a row."""
        return -(-self.width // _PIXELS)

    @property
    def image_patches(self) -> int:
        """Patches of an image."""
        return -(-self.height // _PIXELS) * self.row_patches

    @property
    def patches(self) -> int:
        """Patches of all images."""
        return self.images * self.image_patches

    def vectors(self, lanes: int) -> int:
        """Vectors of filters."""
        return -(-self.filters // lanes)

    def weight_bytes(self, lanes: int) -> int:
        """Bytes of the weights at points."""
        return _PLANES * self.depth * _DEPTH * 2 * self.vectors(lanes) * lanes

    def tile(self) -> int:
        """Patches that are multiplied together, so that few places of tiles stay empty."""
        tiles = range(min(_MOST, self.patches), min(_FEWEST, self.patches) - 1, -1)
        return min(tiles, key=lambda tile: -(-self.patches // tile) * tile)

    def patch_bytes(self, lanes: int) -> int:
        """Bytes of a patch at points and of its sums of a vector of filters."""
        return _PLANES * (self.depth * _DEPTH * 2 + lanes * 4)

    def task_patches(self, lanes: int) -> int:
        """Patches of a task: a tile, or more where weights come from far away."""
        tile = self.tile()
        if self.weight_bytes(lanes) <= _NEAR_WEIGHT_BYTES:
            return tile
        most = _CACHED_BYTES // (self.patch_bytes(lanes) * tile)
        tiles = min(most, -(-self.patches // tile))
        return max(tiles, 1) * tile


def _evaluated(weights: npt.NDArray[np.integer]) -> Int16:
    """Filters [filters, 3, 3, channels] at the points, [planes, channels, filters]."""
    planes = np.einsum("ia,fabc,jb->ijcf", _POINTS, weights.astype(np.float64), _POINTS)
    return planes.reshape(_PLANES, *planes.shape[2:]).astype(np.int16)


def pack_planes(planes: Int16, lanes: int) -> Int16:
    """[vectors of filters, planes, pairs of channels, lanes, channels of a pair].

    The last sixteen channels are where the kernel reads them, less those that came before.
    """
    _, channels, filters = planes.shape
    whole = channels // _DEPTH * _DEPTH
    depth, count = -(-channels // _DEPTH) * _DEPTH, -(-filters // lanes) * lanes
    padded = np.zeros((_PLANES, depth, count), np.int16)
    padded[:, :whole, :filters] = planes[:, :whole]
    padded[:, depth - (channels - whole) :, :filters] = planes[:, whole:]
    pairs = padded.reshape(_PLANES, depth // 2, 2, -1, lanes)
    return np.ascontiguousarray(pairs.transpose(3, 0, 1, 4, 2))


def _pack(op: Op, context: Context) -> tuple[list[np.ndarray], str]:
    """Weights and requantisation parameters; and the form."""
    lanes, weights, zero = context.vector_bytes // 4, signed_weights(op), weights_zero(op)
    offset = -128 if operand(op, 0).dtype is DType.UINT8 else 0
    order = in_order(len(weights), lanes, lanes)
    folded = fold_zero_points(op, weights, zero, offset)
    scaling = integer_requantisation(op, folded, order, context.target, multiples(_PRODUCT))
    planes = _evaluated(weights.astype(np.int16) - np.int16(zero))
    return [pack_planes(planes, lanes), scaling.parameters], scaling.form


def _call(op: Op, context: Context) -> None:
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    source, result = first_taps(op, data), View.whole(op.outputs[0], out)
    lanes, sizes = context.vector_bytes // 4, _Sizes.of(op, out)
    task_patches = sizes.task_patches(lanes)
    groups, vectors = -(-sizes.patches // task_patches), sizes.vectors(lanes)
    splits = min(vectors, -(-_TASKS_WANTED // groups))
    packed = context.packed(op, WINOGRAD, lambda: _pack(op, context))
    params: dict[str, ParamValue] = {
        **source.strides("in"),
        **result.strides("out"),
        "width": sizes.width,
        "height": sizes.height,
        "row_patches": sizes.row_patches,
        "image_patches": sizes.image_patches,
        "patches": sizes.patches,
        "task_patches": task_patches,
        "channels": sizes.channels,
        "depth": sizes.depth,
        "filters": sizes.filters,
        "vectors": vectors,
        "splits": splits,
        **output_bounds(op),
    }
    flip = int(operand(op, 0).dtype is DType.UINT8)
    tail = int(sizes.filters % lanes != 0)
    context.call(
        op,
        Kernel("winograd_q8.h", WINOGRAD, (sizes.tile(), packed.fact, flip, tail)),
        params,
        (source.ref, *packed.refs, result.ref),
        (op.outputs[0],),
        tasks=groups * splits,
        scratch_bytes=task_patches * (sizes.patch_bytes(lanes) + _PLACE_BYTES),
    )


def _method(op: Op, context: Context) -> Knob[str]:
    """Whether `winograd_q8.h` or `conv_q8.h` computes a convolution."""
    lanes, sizes = context.vector_bytes // 4, _Sizes.of(op, context.layout(op.outputs[0]))
    cycles = {
        DIRECT: _direct_cycles(sizes, lanes, context.target),
        WINOGRAD: _cycles(sizes, lanes, context.target),
    }

    def is_there(method: str) -> bool:
        return (method == WINOGRAD) == (context.reused(op, WINOGRAD) is not None)

    name = f"method {sizes.images}x{sizes.height}x{sizes.width}"
    return Knob(name, sorted(cycles, key=cycles.__getitem__), cycles.__getitem__, is_there)


def _cycles(sizes: _Sizes, lanes: int, target: Target) -> float:
    """Predicted time, in dot products of pairs of int16."""
    tile, vectors = sizes.tile(), sizes.vectors(lanes)
    places = -(-sizes.patches // tile) * max(tile, _FEWEST)
    dots = places * vectors * _PLANES * sizes.depth * _DEPTH / 2
    groups = -(-sizes.patches // sizes.task_patches(lanes))
    weights = groups * costs.weights(sizes.weight_bytes(lanes))
    transforms = sizes.patches * (_ENTER_CYCLES * sizes.depth + _LEAVE_CYCLES * vectors)
    return max(dots, weights) + transforms


def _direct_cycles(sizes: _Sizes, lanes: int, target: Target) -> float:
    tile = choose_tile(sizes.width, sizes.filters, target, lanes)
    row = row_cycles(tile, sizes.width, sizes.vectors(lanes), target)
    groups = 3 * -(-3 * sizes.channels // 4)
    return _DIRECT_CYCLES[has_dot(target)] * sizes.images * sizes.height * row * groups


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    if target.arch != "x86_64" or not target.has("avx2"):
        return "needs AVX2"
    return _refuses_window(op) or refuses_conv(op, target) or _refuses_weights(op)


def _refuses_window(op: Op) -> str | None:
    window, (_, height, width, _) = window_of(op), op.outputs[0].static_shape
    if any((w.size, w.stride, w.dilation) != (3, 1, 1) for w in (window.rows, window.columns)):
        return "windows are not 3 x 3 of stride 1"
    if min(height, width) < _PIXELS:
        return "the image is smaller than a patch"
    return None


def _refuses_weights(op: Op) -> str | None:
    filters, _, _, channels = operand(op, 1).static_shape
    if channels < _DEPTH:
        return f"there are fewer than {_DEPTH} input channels"
    if _PLANES * 2 * filters * channels > _MOST_WEIGHT_BYTES:
        return "there are too many weights"
    sizes = np.abs(signed_weights(op).astype(np.int16) - np.int16(weights_zero(op)))
    sums = sizes.reshape(filters, -1).sum(axis=1, dtype=np.int64) * 128
    if sizes.max(initial=0) > _MOST_WEIGHT or sums.max(initial=0) >= _SUMS_TOLD_APART:
        return "sums may leave their range"
    return None


def _lower(op: Op, context: Context) -> None:
    if context.choose(op, _method(op, context)) == WINOGRAD:
        _call(op, context)
        return
    lower_integer_conv(op, context, lambda: signed_weights(op))


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        WINOGRAD,
        _refuses,
        _lower,
        conv_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.TRANSFORM,
    )
)
