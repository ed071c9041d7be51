"""IF over bounds: each branch gives its results in tensors that have room for those of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.backends.cpu.bounds import Bounds, InnerBounds, NotBoundError
from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import is_pure
from circlet.ops.bounded import CONCATENATION, AxisAttrs, count_tensor
from circlet.ops.opdef import NoAttrs
from circlet.plan.sizes import Number, Size


def bind_if(op: Op, bounds: Bounds) -> None:
    """Append an IF whose branches give results of the same sizes, and counts.

    Raises:
        NotBoundError: A branch holds what cannot run over bounds.
    """
    from circlet.backends.cpu.bound_ops import bind

    sizes = _found_sizes(op, bounds)
    branches = [InnerBounds(bounds, op) for _ in op.regions]
    regions = []
    for region, branch in zip(op.regions, branches, strict=True):
        for inner in _needed(region):
            bind(inner, branch)
        pairs = zip(region.outputs, op.outputs, strict=True)
        results = [_widened(inner, outer, op, branch) for inner, outer in pairs]
        counts = [branch.count(_size_in(region, op, size, branch), op) for size in sizes]
        taken = [*map(branch.tensor, region.inputs)]
        regions.append(Graph(region.name, taken, [*results, *counts], branch.done))
    given = list(dict.fromkeys(count for branch in branches for count in branch.given))
    for region, branch in zip(regions, branches, strict=True):
        region.inputs += [branch.given.get(t) or count_tensor(t.name) for t in given]
    found = [count_tensor(f"{op.name} (size)") for _ in sizes]
    inputs = [None if tensor is None else bounds.tensor(tensor) for tensor in op.inputs]
    outputs = [*map(bounds.tensor, op.outputs), *found]
    bounds.done.append(replace(op, inputs=[*inputs, *given], outputs=outputs, regions=regions))
    for size, count in zip(sizes, found, strict=True):
        bounds.find(size, count)


def _found_sizes(op: Op, bounds: Bounds) -> list[Size]:
    """The open sizes of results that depend on which branch runs, or that a branch finds."""
    made = [size for tensor in op.outputs for size in bounds.sizes(tensor)]
    sizes = dict.fromkeys(size for size in made if isinstance(size, Size))
    return [size for size in sizes if not bounds.knows(size)]


def _needed(region: Graph) -> list[Op]:
    """The ops that results with elements depend on, or that do more than compute."""
    read = {tensor for tensor in region.outputs if 0 not in tensor.shape}
    needed = []
    for op in reversed(region.ops):
        if not is_pure(op) or not read.isdisjoint(op.outputs):
            needed.append(op)
            read.update(tensor for tensor in op.inputs if tensor is not None)
    return needed[::-1]


def _size_in(region: Graph, op: Op, size: Size, branch: Bounds) -> Number:
    """What a size of the results is in one branch."""
    for inner, outer in zip(region.outputs, op.outputs, strict=True):
        for own, wanted in zip(branch.sizes(inner), branch.sizes(outer), strict=True):
            if wanted is size:
                return own
    raise AssertionError(f"{op.name} has no such size")


def _widened(inner: Tensor, outer: Tensor, op: Op, branch: Bounds) -> Tensor:
    """A result of a branch in a tensor that has room for those of all branches."""
    wide = branch.tensor(outer).like()
    if 0 in inner.shape:
        sizes = constant("sizes", np.array(wide.static_shape, np.int32))
        zero = constant("zero", np.zeros((), wide.dtype.numpy))
        branch.add(op, "FILL", [sizes, zero], NoAttrs(), [wide])
        return wide
    made = branch.tensor(inner)
    if made.shape == wide.shape:
        return made
    axis = next(i for i, (a, b) in enumerate(zip(made.shape, wide.shape, strict=True)) if a != b)
    before, behind = wide.static_shape[:axis], (made.shape[axis + 1 :], wide.shape[axis + 1 :])
    if any(size != 1 for size in before) or behind[0] != behind[1]:
        raise NotBoundError("its branches differ along an inner axis")
    count = branch.count(branch.sizes(inner)[axis], op)
    branch.add(op, CONCATENATION, [made, count], AxisAttrs(axis), [wide])
    return wide
