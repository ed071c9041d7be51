"""WHILE over bounds: variables whose sizes turns change have room for all turns, and a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.backends.cpu.bounds import Bounds, InnerBounds, NotBoundError, listed
from circlet.backends.cpu.updates import turn_updates
from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.bounded import count_tensor
from circlet.ops.opdef import NoAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.ops.work import work_in_place, work_of, work_of_graph
from circlet.plan.sizes import LoopSizes


def bind_while(op: Op, bounds: Bounds) -> None:
    """Append a WHILE whose variables keep their sizes, and counts of what turns fill of them.

    Raises:
        NotBoundError: Nothing bounds how far a variable grows, or a turn cannot run over bounds.
    """
    sizes = bounds.table.loops.get(op.regions[1])
    if sizes is None:
        raise NotBoundError("nothing bounds how far a variable of the loop grows")
    inside = [InnerBounds(bounds, op) for _ in op.regions]
    counters = [[count_tensor(f"{op.name} (size)") for _ in sizes.changing] for _ in inside]
    for own, counts in zip(inside, counters, strict=True):
        for size, count in zip(sizes.changing, counts, strict=True):
            own.find(size.turn, count)
    outputs = [bounds.tensor(tensor) for tensor in op.outputs]
    condition, body = (_ops_bound(*pair) for pair in zip(op.regions, inside, strict=True))
    results = [fitted(op, *pair, inside[1]) for pair in zip(body, outputs, strict=True)]
    after = [inside[1].count(size.after, op) for size in sizes.changing]
    first = [bounds.count(size.first, op) for size in sizes.changing]
    given = list(dict.fromkeys(count for own in inside for count in own.given))
    known = [[own.given.get(t) or count_tensor(t.name) for t in given] for own in inside]
    ends = [condition, [*results, *after, *known[1]]]
    regions = []
    for number, own in enumerate(inside):
        region = op.regions[number]
        variables = [*map(own.tensor, region.inputs)]
        taken = [*variables, *counters[number], *known[number]]
        regions.append(Graph(region.name, taken, ends[number], own.done))
    starts = [None if t is None else bounds.tensor(t) for t in op.inputs]
    found = [count_tensor(f"{op.name} (size)") for _ in sizes.changing]
    made = [*outputs, *found, *(count_tensor(t.name) for t in given)]
    loop = replace(op, inputs=[*starts, *first, *given], outputs=made, regions=regions)
    bounds.done.append(loop)
    bounds.loop_work += _work(sizes, loop, inside)
    for size, count in zip(sizes.changing, found, strict=True):
        bounds.find(size.last, count)
    for tensor in op.outputs:
        bounds.note(tensor)


def _ops_bound(region: Graph, own: InnerBounds) -> list[Tensor]:
    """Bind the ops of a graph; what stands for its results."""
    from circlet.backends.cpu.bound_ops import bind

    for inner in region.ops:
        bind(inner, own)
    return [own.tensor(tensor) for tensor in region.outputs]


def _work(sizes: LoopSizes, loop: Op, inside: Sequence[Bounds]) -> int:
    """What a loop does in all turns, as far as it is known how many they are."""
    each = sum(map(work_of_graph, loop.regions)) + sum(own.loop_work for own in inside)
    producers = loop.regions[1].producers()
    updates = [producers[result] for result in turn_updates(loop)]
    spared = sum(work_of(op) - work_in_place(op) for op in updates)
    return (each - spared) * (1 if sizes.turns is None else sizes.turns)


def fitted(op: Op, tensor: Tensor, wide: Tensor, bounds: Bounds) -> Tensor:
    """A tensor with the sizes of another one: cut, or with places that mean nothing behind it."""
    if tensor.shape == wide.shape:
        return tensor
    if 0 in tensor.shape:
        made, zero = wide.like(), constant("zero", np.zeros((), wide.dtype.numpy))
        bounds.add(op, "FILL", [listed(op, wide.static_shape), zero], NoAttrs(), [made])
        return made
    kept = tuple(map(min, tensor.static_shape, wide.static_shape))
    if kept != tensor.shape:
        cut, ones = tensor.like(), (1,) * len(kept)
        cut.shape = kept
        lists = [listed(op, (0,) * len(kept)), listed(op, kept), listed(op, ones)]
        bounds.add(op, "STRIDED_SLICE", [tensor, *lists], StridedSliceAttrs(), [cut])
        tensor = cut
    if kept == wide.shape:
        return tensor
    made = wide.like()
    pads = [(0, size - own) for own, size in zip(kept, wide.static_shape, strict=True)]
    bounds.add(op, "PAD", [tensor, constant("pads", np.array(pads, np.int32))], NoAttrs(), [made])
    return made
