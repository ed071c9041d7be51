"""A pixel that is spread over an image and then convolved is convolved as one pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.geometry import SAME_UPPER, UNPADDED
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes import Contract, Rewriter

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
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        grows=dict.fromkeys(("operators", "bytes_moved"), "one convolution becomes two, and a sum"),
    )
    needs = _SPREADS

    def run(self, graph: Graph) -> bool:
        """Split every convolution that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if _is_point(op):
                _split(op, rewriter)
        return rewriter.finish()


def _split(op: Op, rewriter: Rewriter) -> None:
    """Put what computes the same as a convolution in its place, where that can be."""
    join = rewriter.producer(operand(op, 0))
    if join is None or not _joins_channels(join, rewriter):
        return
    spreads = [_spread(operand(join, i), rewriter) for i in range(len(join.inputs))]
    found = [spread for spread in spreads if spread is not None]
    if len(found) != 1 or len(spreads) == 1:
        return
    gone = [spread for spread in found if rewriter.is_private(spread.outputs[0])]
    pixel, place = operand(found[0], 0), spreads.index(found[0])
    rewriter.replace([*gone, join, op], *_parts(op, join, pixel, place))


def _joins_channels(join: Op, rewriter: Rewriter) -> bool:
    if join.kind != "CONCATENATION" or not rewriter.is_private(join.outputs[0]):
        return False
    return join.attributes(ConcatenationAttrs).axis in (3, -1) and activation_of(join) == "NONE"


def _spread(tensor: Tensor, rewriter: Rewriter) -> Op | None:
    """The op that shows an image of one pixel everywhere in a tensor."""
    spread = rewriter.producer(tensor)
    if spread is None or spread.kind not in _SPREADS or tensor in rewriter.boundary:
        return None
    source, (batch, height, width, channels) = operand(spread, 0), tensor.static_shape
    single = source.static_shape == (batch, 1, 1, channels)
    return spread if single and height * width >= _FEWEST_PIXELS else None


def _is_point(op: Op) -> bool:
    if op.kind != "CONV_2D" or op.input(2) is None:
        return False
    weights, bias = operand(op, 1), operand(op, 2)
    attrs = op.attributes(Conv2DAttrs)
    constant = all(t.data is not None and t.sparsity is None for t in (weights, bias))
    floats = {t.dtype for t in (operand(op, 0), weights, bias, op.outputs[0])} == {DType.FLOAT32}
    single = weights.static_shape[1:3] == (1, 1) and attrs.strides == (1, 1)
    ungrouped = weights.static_shape[3] == operand(op, 0).static_shape[3]
    unpadded = attrs.padding in (SAME_UPPER, UNPADDED)
    return constant and floats and single and ungrouped and unpadded


def _parts(op: Op, join: Op, pixel: Tensor, place: int) -> list[Op]:
    """What computes the same as a convolution, one of whose joined operands is a spread pixel."""
    inputs = [operand(join, i) for i in range(len(join.inputs))]
    ends = np.cumsum([tensor.static_shape[3] for tensor in inputs])
    weights = np.split(np.asarray(operand(op, 1).data), ends[:-1], axis=3)
    own, whole = weights.pop(place), [t for i, t in enumerate(inputs) if i != place]
    rest = np.concatenate(weights, axis=3)
    image, ahead = _joined(join, whole)
    result, attrs = op.outputs[0], op.attributes(Conv2DAttrs)
    plain = replace(attrs, activation="NONE")
    shape = result.static_shape
    once = result.like(f"{result.name} of one pixel")
    once.shape, once.default_shape = (shape[0], 1, 1, shape[3]), None
    many = result.like(f"{result.name} of all pixels")
    filters = _constant(op, own, "of one pixel"), _constant(op, rest, "of all pixels")
    first = replace(op, inputs=[pixel, filters[0], op.inputs[2]], outputs=[once], attrs=plain)
    second = replace(op, inputs=[image, filters[1], None], outputs=[many], attrs=plain)
    add = AddAttrs(attrs.activation)
    return [*ahead, first, second, Op("ADD", [many, once], [result], add, op.origin)]


def _joined(join: Op, whole: list[Tensor]) -> tuple[Tensor, list[Op]]:
    """One tensor of the images that do change, and the op that joins several."""
    if len(whole) == 1:
        return whole[0], []
    sizes = whole[0].static_shape
    made = join.outputs[0].like(f"{join.outputs[0].name} of all pixels")
    made.shape = (*sizes[:3], sum(t.static_shape[3] for t in whole))
    made.default_shape = None
    return made, [replace(join, inputs=[*whole], outputs=[made])]


def _constant(op: Op, data: np.ndarray, note: str) -> Tensor:
    weights = operand(op, 1)
    held = np.ascontiguousarray(data)
    held.flags.writeable = False
    name = f"{weights.name} {note}"
    return replace(weights, name=name, shape=held.shape, default_shape=None, data=held)
