"""Recipes of ONNX operators whose operands are positions, or that give positions."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType
from tests.generated.draw import Sizes
from tests.generated.nodes.case import NodeDraw, NodeParts, NodeRecipe
from tests.generated.nodes.recipes import fixed, longs

_REDUCTIONS = ("add", "mul", "max", "min")


def gathered(d: NodeDraw) -> NodeParts:
    """Rows along an axis; places may be counted from the end."""
    source = d.array(d.draw.shape(1, 4, empty=0))
    axis = d.draw.integer(-source.ndim, source.ndim - 1)
    size, kind = source.shape[axis], d.draw.pick((np.int32, np.int64))
    shape: Sizes = d.draw.shape(0, 2)
    if d.schema.name != "Gather":
        shape = (*source.shape[:axis], d.draw.integer(1, 4), *source.shape[axis:][1:])
    places = d.draw.rng.integers(-size, size, shape).astype(kind)
    return NodeParts([source, places], {"axis": axis}, fixed(d, 1, share=0.3))


def scattered(d: NodeDraw) -> NodeParts:
    """Values at places along an axis; joined with what is there where places repeat."""
    made = gathered(d)
    source, places = made.inputs
    assert source is not None and places is not None
    attrs = dict(made.attrs)
    if source.dtype.kind != "b":
        attrs["reduction"] = d.draw.pick(_REDUCTIONS)
    return NodeParts([source, places, d.array(places.shape)], attrs)


def points(d: NodeDraw) -> NodeParts:
    """What lies at lists of positions."""
    source = d.array(d.draw.shape(1, 4, empty=0))
    depth, count = d.draw.integer(1, source.ndim), d.draw.shape(1, 2)
    columns = [d.draw.rng.integers(-size, size, count) for size in source.shape[:depth]]
    places = longs(np.stack(columns, -1))
    if d.schema.name == "GatherND":
        return NodeParts([source, places], {}, fixed(d, 1, share=0.3))
    updates = d.array((*count, *source.shape[depth:]))
    reduction = "add" if source.dtype.kind == "b" else d.draw.pick(_REDUCTIONS)
    return NodeParts(
        [source, places, updates], {"reduction": reduction} if source.dtype.kind != "b" else {}
    )


def compressed(d: NodeDraw) -> NodeParts:
    """Rows for which a condition holds."""
    source = d.array(d.draw.shape(1, 3, empty=0))
    axis = d.draw.integer(0, source.ndim - 1)
    flags = d.array((source.shape[axis],), DType.BOOL)
    return NodeParts([source, flags], {"axis": axis})


def topped(d: NodeDraw) -> NodeParts:
    """The largest or the smallest elements along an axis, in order."""
    shape = d.draw.shape(1, 3, empty=0)
    source = d.array(shape)
    axis = d.draw.integer(-len(shape), len(shape) - 1)
    attrs = {"axis": axis, "largest": d.draw.integer(0, 1), "sorted": 1}
    return NodeParts([source, longs([d.draw.integer(0, shape[axis])])], attrs, fixed(d, 1), 2)


def hot(d: NodeDraw) -> NodeParts:
    """Positions along a new axis."""
    shape, depth = d.draw.shape(0, 3), d.draw.integer(1, 6)
    places = longs(d.draw.rng.integers(-depth, depth, shape))
    values = d.array((2,), d.draw.pick((DType.FLOAT32, DType.INT32, DType.INT64)))
    axis = d.draw.integer(-len(shape) - 1, len(shape))
    return NodeParts([places, longs(depth), values], {"axis": axis}, fixed(d, 1, 2))


def reversed_parts(d: NodeDraw) -> NodeParts:
    """Lengths along one of the first two axes for each position of the other."""
    source, batch = d.array(d.draw.shape(2, 4, empty=0)), d.draw.integer(0, 1)
    time = 1 - batch
    lengths = longs(d.draw.rng.integers(1, source.shape[time], source.shape[batch], endpoint=True))
    return NodeParts(
        [source, lengths], {"batch_axis": batch, "time_axis": time}, fixed(d, 1, share=0.3)
    )


def unique(d: NodeDraw) -> NodeParts:
    """A list in which values repeat."""
    d.draw.style = "plain"
    source = d.draw.rng.choice(d.array((4,)), d.draw.integer(1, 12))
    return NodeParts([np.asarray(source)], {"sorted": 1}, frozenset(), 4)


POSITIONS: dict[str, NodeRecipe] = {
    **dict.fromkeys(("Gather", "GatherElements"), gathered),
    **dict.fromkeys(("GatherND", "ScatterND"), points),
    "Compress": compressed,
    "OneHot": hot,
    "ReverseSequence": reversed_parts,
    "ScatterElements": scattered,
    "TopK": topped,
    "Unique": unique,
}
