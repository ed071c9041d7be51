"""Convolutions of volumes become convolutions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs, pads_before, windows_of
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.passes import Contract, Rewriter
from circlet.passes.contract import BOUND

_MOST_ELEMENTS = 1 << 26
_DEPTH, _CHANNELS = 1, 4


@dataclass(frozen=True)
class Conv3DToConv2D:
    """Let the planes that a window covers be channels of one image.

    Before: `CONV_3D(x, w, b)`. After, for each tap along the depth: the planes that it meets,
    `STRIDED_SLICE(PAD(x))`; `CONCATENATION` of those along channels; and `CONV_2D` over all planes
    as a batch of images. Only for float32, whose sums it adds in another order, and where the
    planes side by side take no absurd memory.
    """

    name = "conv3d-to-conv2d"
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        grows=dict.fromkeys(BOUND, "planes are laid side by side, padding included"),
    )
    needs = frozenset({"CONV_3D"})

    def run(self, graph: Graph) -> bool:
        """Replace every convolution that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if _can_be_images(op):
                rewriter.replace([op], *_images(op))
        return rewriter.finish()


def _can_be_images(op: Op) -> bool:
    if op.kind != "CONV_3D":
        return False
    weights = [t for t in op.inputs[1:] if t is not None]
    constant = all(t.data is not None and t.sparsity is None for t in weights)
    floats = all(t is None or t.dtype is DType.FLOAT32 for t in (*op.inputs, *op.outputs))
    data, result = operand(op, 0).static_shape, op.outputs[0].static_shape
    planes = result[0] * result[_DEPTH] * operand(op, 1).static_shape[0]
    return constant and floats and planes * prod(data[2:]) <= _MOST_ELEMENTS


def _images(op: Op) -> list[Op]:
    builder = _Builder(op)
    attrs, weights = op.attrs, np.asarray(operand(op, 1).data)
    assert isinstance(attrs, Conv3DAttrs)
    taps, rows, columns, channels, filters = weights.shape
    source = builder.planes(operand(op, 0))
    flat = builder.reshaped(source, (-1, *source.static_shape[2:]))
    by_filter = weights.transpose(4, 1, 2, 0, 3).reshape(filters, rows, columns, taps * channels)
    result = op.outputs[0]
    shape = result.static_shape
    convolved = builder.make(
        Conv2DAttrs(
            SAME_UPPER if attrs.padding == SAME_UPPER else attrs.padding[1:],
            attrs.strides[1:],
            attrs.dilations[1:],
            activation=attrs.activation,
        ),
        "CONV_2D",
        [flat, builder.constant(by_filter), op.input(2)],
        (shape[0] * shape[1], *shape[2:]),
    )
    builder.reshaped(convolved, shape, result)
    return builder.ops


class _Builder:
    """Makes the ops that replace one."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self.ops: list[Op] = []

    def planes(self, data: Tensor) -> Tensor:
        """The planes that each output plane is made of, side by side as channels."""
        window, count = windows_of(self._op)[0], self._op.outputs[0].static_shape[_DEPTH]
        (before, *_) = pads_before(self._op, data.static_shape[1:4])
        reach = (count - 1) * window.stride + window.extent - before
        data = self._padded(data, before, max(0, reach - data.static_shape[_DEPTH]))
        if window.size == window.stride == 1:
            return data
        parts = [
            self._every(data, tap * window.dilation, window.stride, count)
            for tap in range(window.size)
        ]
        if len(parts) == 1:
            return parts[0]
        shape = parts[0].static_shape
        wide = (*shape[:_CHANNELS], len(parts) * shape[_CHANNELS])
        return self.make(ConcatenationAttrs(_CHANNELS), "CONCATENATION", parts, wide)

    def reshaped(
        self, data: Tensor, shape: tuple[int, ...], result: Tensor | None = None
    ) -> Tensor:
        """The same elements in other sizes, one of which may be -1."""
        known = -prod(shape) if -1 in shape else 0
        sizes = tuple(data.elements // known if n == -1 else n for n in shape)
        inputs = [data, self.constant(np.array(sizes, np.int32))]
        return self.make(ReshapeAttrs(sizes), "RESHAPE", inputs, sizes, result)

    def _padded(self, data: Tensor, before: int, after: int) -> Tensor:
        if not before and not after:
            return data
        amounts = np.zeros((len(data.static_shape), 2), np.int32)
        amounts[_DEPTH] = before, after
        shape = list(data.static_shape)
        shape[_DEPTH] += before + after
        return self.make(NoAttrs(), "PAD", [data, self.constant(amounts)], tuple(shape))

    def _every(self, data: Tensor, first: int, step: int, count: int) -> Tensor:
        """Every `step`-th plane from the first."""
        shape = list(data.static_shape)
        begin, strides, end = np.zeros(5, np.int32), np.ones(5, np.int32), np.array(shape, np.int32)
        begin[_DEPTH], strides[_DEPTH] = first, step
        end[_DEPTH] = first + (count - 1) * step + 1
        shape[_DEPTH] = count
        inputs = [data, *map(self.constant, (begin, end, strides))]
        return self.make(StridedSliceAttrs(), "STRIDED_SLICE", inputs, tuple(shape))

    def constant(self, values: np.ndarray) -> Tensor:
        """A constant operand."""
        held = np.ascontiguousarray(values)
        held.flags.writeable = False
        return Tensor(f"{self._op.name} (constant)", DType.of(held), held.shape, data=held)

    def make(
        self,
        attrs: object,
        kind: str,
        inputs: Sequence[Tensor | None],
        shape: tuple[int, ...],
        result: Tensor | None = None,
    ) -> Tensor:
        """Append an op and give its result, a new float tensor where there is none."""
        name = f"{self._op.name} ({kind.lower()})"
        made = Tensor(name, DType.FLOAT32, shape) if result is None else result
        self.ops.append(Op(kind, list(inputs), [made], attrs, self._op.origin))
        return made
