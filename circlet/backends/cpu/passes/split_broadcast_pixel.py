"""A pixel that is spread over an image and then convolved is convolved as one pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of

_SPREADS = frozenset({"RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "BROADCAST_TO"})
_FEWEST_PIXELS = 16


@dataclass(frozen=True)
class SplitBroadcastPixel:
    """Take what does not change from pixel to pixel out of a convolution with a window of one.

    Before: `CONV_2D(CONCATENATION(RESIZE_BILINEAR(p), x), w, b)` where p is one pixel, as pyramid
    pooling makes. After: `ADD(CONV_2D(x, w2), CONV_2D(p, w1, b))`. Only for float32, whose sums it
    adds in another order.
    """

    name = "split-broadcast-pixel"
    needs = _SPREADS

    def run(self, graph: Graph) -> bool:
        """Split every convolution that can be."""
        splitter = _Splitter(graph)
        splits = {op: new for op in graph.ops if (new := splitter.split(op))}
        ops = [new for op in graph.ops for new in splits.get(op, (op,))]
        graph.ops[:] = _without_unread(ops, splitter.left, graph.outputs)
        return bool(splits)


def _without_unread(ops: list[Op], left: set[Tensor], outputs: Sequence[Tensor]) -> list[Op]:
    """The ops but those that make tensors of `left` which nothing reads."""
    kept: list[Op] = []
    read: set[Tensor | None] = set(outputs)
    for op in reversed(ops):
        unread = left.issuperset(op.outputs) and read.isdisjoint(op.outputs)
        if op.outputs and unread:
            continue
        kept.append(op)
        read.update(op.inputs)
    return kept[::-1]


class _Splitter:
    """Splits convolutions of one graph.

    Attributes:
        left: Tensors that the convolutions no longer read.
    """

    def __init__(self, graph: Graph) -> None:
        self._producers = graph.producers()
        self._readers = graph.consumers()
        self._seen = frozenset(graph.outputs)
        self.left: set[Tensor] = set()

    def split(self, op: Op) -> list[Op]:
        """The ops that compute the same as a convolution, or none."""
        join = self._producers.get(operand(op, 0)) if _is_point(op) else None
        if join is None or not self._joins(join):
            return []
        pixels = [self._pixel(operand(join, i)) for i in range(len(join.inputs))]
        whole = [t for t, pixel in zip(join.inputs, pixels, strict=True) if pixel is None]
        if len(whole) in (0, len(pixels)) or pixels.count(None) < len(pixels) - 1:
            return []
        self.left.update(join.outputs, (t for t in join.inputs if t is not None))
        return _split(op, join, pixels)

    def _joins(self, join: Op) -> bool:
        result = join.outputs[0]
        private = len(self._readers.get(result, ())) == 1 and result not in self._seen
        if join.kind != "CONCATENATION" or not private:
            return False
        return join.attributes(ConcatenationAttrs).axis in (3, -1) and activation_of(join) == "NONE"

    def _pixel(self, tensor: Tensor) -> Tensor | None:
        """The image of one pixel that a tensor shows everywhere."""
        spread = self._producers.get(tensor)
        if spread is None or spread.kind not in _SPREADS or tensor in self._seen:
            return None
        source, (batch, height, width, channels) = operand(spread, 0), tensor.static_shape
        single = source.static_shape == (batch, 1, 1, channels)
        return source if single and height * width >= _FEWEST_PIXELS else None


def _is_point(op: Op) -> bool:
    if op.kind != "CONV_2D" or op.input(2) is None:
        return False
    weights, bias = operand(op, 1), operand(op, 2)
    attrs = op.attributes(Conv2DAttrs)
    constant = all(t.data is not None and t.sparsity is None for t in (weights, bias))
    floats = {t.dtype for t in (operand(op, 0), weights, bias, op.outputs[0])} == {DType.FLOAT32}
    single = weights.static_shape[1:3] == (1, 1) and attrs.strides == (1, 1)
    ungrouped = weights.static_shape[3] == operand(op, 0).static_shape[3]
    return constant and floats and single and ungrouped


def _split(op: Op, join: Op, pixels: Sequence[Tensor | None]) -> list[Op]:
    inputs = [operand(join, i) for i in range(len(join.inputs))]
    ends = np.cumsum([tensor.static_shape[3] for tensor in inputs])
    data = np.asarray(operand(op, 1).data)
    parts = np.split(data, ends[:-1], axis=3)
    rows = zip(inputs, pixels, parts, strict=True)
    ((pixel, own),) = [(pixel, part) for _, pixel, part in rows if pixel is not None]
    whole = [t for t, p in zip(inputs, pixels, strict=True) if p is None]
    rest = np.concatenate([w for w, p in zip(parts, pixels, strict=True) if p is None], axis=3)
    image, ahead = _joined(op, join, whole)
    result, attrs = op.outputs[0], op.attributes(Conv2DAttrs)
    plain = replace(attrs, activation="NONE")
    shape = result.static_shape
    once = result.like(f"{result.name} of one pixel")
    once.shape, once.default_shape = (shape[0], 1, 1, shape[3]), None
    many = result.like(f"{result.name} of all pixels")
    first = _conv(op, [pixel, _constant(op, own, "of one pixel"), op.inputs[2]], once, plain)
    second = _conv(op, [image, _constant(op, rest, "of all pixels"), None], many, plain)
    add = AddAttrs(attrs.activation)
    return [*ahead, first, second, Op("ADD", [many, once], [result], add, op.origin)]


def _joined(op: Op, join: Op, whole: list[Tensor]) -> tuple[Tensor, list[Op]]:
    """One tensor of the images that do change, and the op that joins several."""
    if len(whole) == 1:
        return whole[0], []
    sizes = whole[0].static_shape
    made = join.outputs[0].like(f"{join.outputs[0].name} of all pixels")
    made.shape = (*sizes[:3], sum(t.static_shape[3] for t in whole))
    made.default_shape = None
    return made, [replace(join, inputs=[*whole], outputs=[made])]


def _conv(op: Op, inputs: list[Tensor | None], result: Tensor, attrs: Conv2DAttrs) -> Op:
    origin: Origin = op.origin
    return replace(op, inputs=inputs, outputs=[result], attrs=attrs, origin=origin)


def _constant(op: Op, data: np.ndarray, note: str) -> Tensor:
    weights = operand(op, 1)
    held = np.ascontiguousarray(data)
    held.flags.writeable = False
    return replace(weights, name=f"{weights.name} {note}", shape=held.shape, data=held)
