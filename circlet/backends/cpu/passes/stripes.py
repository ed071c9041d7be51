"""What passes that make layers run stripe by stripe have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from circlet.ir import DType, Op, Tensor
from circlet.ops import get
from circlet.ops.conv import window_of
from circlet.ops.fused import FUSED_RESIDUAL, FUSED_STRIPE, StripeAttrs, parts_of
from circlet.ops.geometry import Window
from circlet.ops.operands import operand
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of
from circlet.ops.shape import copy_op
from circlet.passes import Rewriter

_FLOATS = (DType.FLOAT32,) * 3
_BYTES = ((DType.INT8,) * 3, (DType.UINT8,) * 3)
_COPY = "RESHAPE"
_IMAGE_RANK = 4
_LEAST_SHARES = 7  # of an image: with fewer, the rows of a stripe are not much less than it
_STRIPE_COUNTS = (16, 32, 64, 128)


class Edge(NamedTuple):
    """Two layers of which only the second reads the image that the first makes."""

    producer: Op
    consumer: Op

    @property
    def image(self) -> Tensor:
        """The image between them."""
        return self.producer.outputs[0]

    @property
    def shared_rows(self) -> int:
        """Rows of the image that windows of two neighbouring stripes cover."""
        return max(0, _window(self.consumer).extent - _window(self.consumer).stride)


@dataclass(frozen=True)
class StripeFusion:
    """How layers are fused.

    Attributes:
        most_parts: Layers that run together.
        buffer_bytes: What the rows of one stripe should fit.
    """

    most_parts: int
    buffer_bytes: int

    def fuse(self, rewriter: Rewriter, edges: Collection[Edge]) -> None:
        """Have layers that edges join run together."""
        for parts in _sequences(edges):
            rewriter.replace(parts, self._fused(parts))

    def chosen(self, edges: Iterable[Edge]) -> list[Edge]:
        """Edges over images of many stripes, the first ones first, none with too many layers."""
        taken: list[Edge] = []
        before, after = dict[Op, Op](), dict[Op, Op]()
        for edge in edges:
            if edge.image.static_shape[1] < _LEAST_SHARES * edge.shared_rows:
                continue
            joined = *_along(edge.producer, before), *_along(edge.consumer, after)
            if _layers(joined) <= self.most_parts:
                before[edge.consumer], after[edge.producer] = edge
                taken.append(edge)
        return taken

    def _fused(self, parts: Sequence[Op]) -> Op:
        made = {part.outputs[0] for part in parts}
        others = [t for part in parts for t in part.inputs[1:] if t is not None and t not in made]
        attrs, last = StripeAttrs(tuple(parts), self._stripes(parts)), parts[-1]
        return Op(FUSED_STRIPE, [parts[0].inputs[0], *others], last.outputs, attrs, last.origin)

    def _stripes(self, parts: Sequence[Op]) -> int:
        """The fewest stripes whose rows fit the buffers, unless most rows would be shared ones.

        Many threads find work; twice as much, so that it evens out, where no row is made again.
        """
        height = parts[-1].outputs[0].static_shape[1]
        shared = max(Edge(*pair).shared_rows for pair in pairwise(parts))
        most = max(1, height // max(1, shared))
        counts = [count for count in _STRIPE_COUNTS[not shared :] if count < most]
        fits = (count for count in counts if _stripe_bytes(parts, count) <= self.buffer_bytes)
        return next(fits, most)


def _sequences(edges: Collection[Edge]) -> list[list[Op]]:
    """Layers one after the other that edges join."""
    after = {edge.producer: edge.consumer for edge in edges}
    later = set(after.values())
    return [[*_along(op, after)] for op in after if op not in later]


def _along(op: Op | None, links: Mapping[Op, Op]) -> Iterator[Op]:
    """An op and those that links lead to, one after the other."""
    while op is not None:
        yield op
        op = links.get(op)


def _layers(ops: Sequence[Op]) -> int:
    return sum(op.kind != _COPY for op in ops)


def copy_inputs(rewriter: Rewriter) -> list[Edge]:
    """Have layers that pad an input of the graph read a copy of it; each copy and its layer.

    An input is the caller's: padding around it needs a copy in any case.
    """
    edges = []
    for op in reversed(list(rewriter.ops())):
        image = op.input(0)
        if image is None or image not in rewriter.graph.inputs or not _pads_rows(op):
            continue
        copy = image.like(f"{image.name} with border")
        producer = copy_op(image, copy, op.origin)
        consumer = replace(op, inputs=[copy, *op.inputs[1:]])
        rewriter.replace([op], producer, consumer)
        edges.append(Edge(producer, consumer))
    return edges


def _pads_rows(op: Op) -> bool:
    if op.kind == FUSED_RESIDUAL or not _is_layer(op):
        return False
    _, height, width, _ = operand(op, 0).static_shape
    return any(map(any, window_of(op).pads(height, width)))


def stripe_edges(rewriter: Rewriter) -> Iterator[Edge]:
    """Neighbouring layers of a graph that can run stripe by stripe."""
    for op in rewriter.ops():
        if not _is_layer(op) or not rewriter.is_private(op.outputs[0]):
            continue
        (reader,) = rewriter.readers(op.outputs[0])
        if reader.inputs[0] is op.outputs[0] and _is_layer(reader):
            yield Edge(op, reader)


def row_macs(op: Op) -> int:
    """Multiply-adds, or what else is computed, of a row of outputs."""
    layer = _layer(op)
    batch, height, *_ = layer.outputs[0].static_shape
    return get(layer).cost(layer).computing // (batch * height)


def _layer(op: Op) -> Op:
    return parts_of(op)[0] if op.kind == FUSED_RESIDUAL else op


def _window(op: Op) -> Window:
    return window_of(_layer(op)).rows


def _stripe_bytes(parts: Sequence[Op], count: int) -> float:
    """Bytes of the rows that buffers hold for one of `count` stripes."""
    rows, needed = -(-parts[-1].outputs[0].static_shape[1] // count), 0.0
    for producer, consumer in reversed(list(pairwise(parts))):
        window, image = _window(consumer), producer.outputs[0]
        rows = (rows - 1) * window.stride + window.extent
        needed += rows * image.size_bytes / image.static_shape[0] / image.static_shape[1]
    return needed


def _is_layer(op: Op) -> bool:
    """Whether rows of a layer's results follow from rows of its image alone."""
    layer = _layer(op)
    if layer.kind not in ("CONV_2D", "DEPTHWISE_CONV_2D") or layer.inputs[0] is None:
        return False
    if layer.kind != op.kind and not _adds_image(op):
        return False
    weights = layer.inputs[1:]
    if any(t is not None and (t.data is None or t.sparsity is not None) for t in weights):
        return False
    data, filters = operand(layer, 0), operand(layer, 1)
    types = data.dtype, filters.dtype, op.outputs[0].dtype
    clamps = activation_of(layer) in FLOAT_ACTIVATION_RANGES
    same_depth = data.static_shape[3] == filters.static_shape[3]
    if data.is_constant or not clamps or not same_depth:
        return False
    return types in _BYTES or (types == _FLOATS and _adds_in_order(layer))


def _adds_in_order(layer: Op) -> bool:
    """Whether float kernels add the products of a layer in the same order for any image."""
    window = window_of(layer)
    steps, taps = window.rows.stride, window.rows.size * window.columns.size
    return layer.kind == "DEPTHWISE_CONV_2D" or taps == 1 or steps > 1


def _adds_image(op: Op) -> bool:
    """Whether what a layer adds before it stores has rows that fit its own, or is one pixel."""
    addend, made = op.inputs[-1], op.outputs[0].static_shape
    if addend is None or len(addend.static_shape) != _IMAGE_RANK:
        return False
    return addend.static_shape[:3] == made[:3] or addend.static_shape[1:3] == (1, 1)
