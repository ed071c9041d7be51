"""Reshapes and transposes that only reorder channels of an image are slices or gathers of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops.gather import GatherAttrs, gather_axes
from circlet.ops.layout import permutation
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.passes.contract import Contract
from circlet.passes.move_transposes import MoveTransposes
from circlet.passes.remove_dead_ops import RemoveDeadOps
from circlet.passes.rewriter import Rewriter

_NCHW = (0, 3, 1, 2)
_CHANNELS, _MOST_STEPS = 1, 6
_OTHER_AXES = 0b1101


@dataclass(frozen=True)
class GatherChannels:
    """Say what a shuffle of channels does in one op, which then runs on NHWC images.

    Before: `TRANSPOSE{NCHW} -> RESHAPE [g, c, h, w] -> TRANSPOSE [1, 0, 2, 3] -> RESHAPE`. After:
    `TRANSPOSE{NCHW} -> GATHER` along the channels, or `STRIDED_SLICE` where they lie evenly apart.
    """

    name = "gather-channels"
    contract = Contract(
        grows=dict.fromkeys(
            ("operators", "bytes_moved"),
            "transposes meet others further on, not in the same run",
        )
    )
    needs = frozenset({"TRANSPOSE"})

    def run(self, graph: Graph) -> bool:
        """Replace chains until none is left: one is seen once the one before it was."""
        changed = False
        while _replace_all(graph):
            changed = True
            RemoveDeadOps().run(graph)
            MoveTransposes().run(graph)
        return changed


def _replace_all(graph: Graph) -> bool:
    """Replace the last op of every chain; what nothing reads then is dead."""
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.kind in ("RESHAPE", "GATHER"):
            _replace(op, rewriter)
    return rewriter.finish()


def _replace(op: Op, rewriter: Rewriter) -> None:
    chain = _chain(op, rewriter)
    if not chain or all(step.kind != "TRANSPOSE" for step in chain):
        return
    image, result = chain[0].inputs[0], op.outputs[0]
    if image is None or None in image.shape or None in result.shape or len(result.shape) != 4:
        return
    batch, channels, *size = image.static_shape
    if result.static_shape[0] != batch or [*result.static_shape[2:]] != size:
        return
    places = _places(chain, np.arange(batch * channels).reshape(batch, channels), prod(size))
    if places is None or places.shape != result.static_shape[:2] or not places.size:
        return
    starts = np.arange(batch)[:, None] * channels
    if (places - starts == places[0]).all():
        rewriter.replace([op], _taken(chain, image, places[0]))


def _chain(op: Op, rewriter: Rewriter) -> list[Op]:
    """The ops from an image whose channels were brought to the front up to an op."""
    chain: list[Op] = [op]
    while len(chain) <= _MOST_STEPS:
        before = rewriter.producer(chain[0].inputs[0])
        if before is None or before.kind not in ("RESHAPE", "TRANSPOSE", "GATHER"):
            return []
        if before.kind == "TRANSPOSE" and permutation(before) == _NCHW:
            return chain
        chain.insert(0, before)
    return []


def _places(chain: Sequence[Op], places: np.ndarray, inner: int) -> np.ndarray | None:
    """Which channel comes to lie where; None where the `inner` elements of one come apart."""
    for op in chain:
        result = op.outputs[0]
        if None in result.shape:
            return None
        if op.kind == "RESHAPE":
            lead = _lead(result.static_shape, inner)
            if lead is None or prod(lead) != places.size:
                return None
            places = places.reshape(lead)
        elif op.kind == "TRANSPOSE":
            order, count = permutation(op), places.ndim
            if order is None or order[count:] != tuple(range(count, len(order))):
                return None
            places = places.transpose(order[:count])
        else:
            picked = _picked(op, places)
            if picked is None:
                return None
            places = picked
    return places


def _picked(op: Op, places: np.ndarray) -> np.ndarray | None:
    """What a GATHER along an axis of channels picks of them."""
    (axis, batch_dims), index = gather_axes(op), op.inputs[1]
    if index is None or index.data is None or batch_dims or axis >= places.ndim:
        return None
    if index.data.size and not 0 <= index.data.min() <= index.data.max() < places.shape[axis]:
        return None
    return places.take(index.data, axis)


def _lead(sizes: tuple[int, ...], inner: int) -> tuple[int, ...] | None:
    """The sizes before those, as few as can be, whose product is `inner`."""
    for count in range(len(sizes), -1, -1):
        if prod(sizes[count:]) == inner:
            return sizes[:count]
    return None


def _taken(chain: Sequence[Op], image: Tensor, places: np.ndarray) -> Op:
    """Channels of an image by their numbers, for all ops of a chain."""
    origin, outputs = Origin.union(op.origin for op in chain), chain[-1].outputs
    steps = np.diff(places)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or not (steps == step).all():
        index = constant("channels", places.astype(np.int32))
        return Op("GATHER", [image, index], outputs, GatherAttrs(axis=_CHANNELS), origin)
    ends = [[0, int(places[0]), 0, 0], [0, int(places[-1]) + 1, 0, 0], [1, step, 1, 1]]
    ranges = [constant("range", np.array(values, np.int32)) for values in ends]
    attrs = StridedSliceAttrs(begin_mask=_OTHER_AXES, end_mask=_OTHER_AXES)
    return Op("STRIDED_SLICE", [image, *ranges], outputs, attrs, origin)
