"""Transposes move towards the outputs, where they meet others and cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs, get
from circlet.ops.layout import permutation
from circlet.ops.operands import is_reshape
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter
from circlet.passes.transposed import Transposed, is_movable, reshaped, transposed

Order = tuple[int, ...]
Movable = Callable[[Op], bool]


@dataclass(frozen=True)
class MoveTransposes:
    """Let operators that do not mind the order of axes run before a transpose instead of after it.

    Before: `CONV_2D -> TRANSPOSE -> RELU -> TRANSPOSE -> CONV_2D`, as a network has it whose images
    are NCHW. After: `CONV_2D -> RELU -> CONV_2D`. Of two transposes in a row one stays, or none. A
    transpose that only moves axes of one element is a reshape where a reshape reads it. Where
    several operators read a transposed tensor, each gets a transpose behind it, in the hope that
    these cancel; in a graph that would be left with more operators, only what has one reader moves.

    Attributes:
        sums: Whether sums and means of floats move: kernels add up by vectors, and so in another
            order where other axes are innermost.
    """

    name = "move-transposes"
    contract = Contract(
        grows=dict.fromkeys(
            ("operators", "bytes_moved"),
            "transposes that nothing reads any more are left to remove-dead-ops",
        )
    )
    needs = frozenset({"TRANSPOSE"})
    sums: bool = True

    def run(self, graph: Graph) -> bool:
        """Move in execution order, so that a transpose passes a whole chain in one run."""
        movable = is_movable if self.sums else _keeps_its_order
        trial = replace(graph, ops=[copy(op) for op in graph.ops], tensors=[*graph.tensors])
        if not _moved(trial, movable, past_many=True):
            return False
        return _moved(graph, movable, past_many=_used(trial) <= _used(graph))


def _keeps_its_order(op: Op) -> bool:
    """Whether an op may run before a transpose, and adds up no floats."""
    adds = op.kind in ("MEAN", "SUM") and op.outputs[0].dtype.is_float
    return is_movable(op) and not adds


def _moved(graph: Graph, movable: Movable, *, past_many: bool) -> bool:
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.kind == "TRANSPOSE":
            if not _merge(op, rewriter):
                _as_reshape(op, rewriter)
        elif past_many or _reads_alone(op, rewriter):
            _move(op, rewriter, movable)
    return rewriter.finish()


def _used(graph: Graph) -> int:
    """How many ops there are without transposes that nothing reads."""
    read, count = set(graph.outputs), 0
    for op in reversed(graph.ops):
        if op.kind != "TRANSPOSE" or not read.isdisjoint(op.outputs):
            read.update(tensor for tensor in op.inputs if tensor is not None)
            count += 1
    return count


def _reads_alone(op: Op, rewriter: Rewriter) -> bool:
    """Whether an op makes one result, and nothing else reads its transposed operands."""
    turned = [t for t in op.inputs if t is not None and _order_of(t, rewriter) is not None]
    return len(op.outputs) == 1 and all(rewriter.readers(t) == [op] for t in turned)


def _order_of(tensor: Tensor | None, rewriter: Rewriter) -> tuple[Tensor, Order] | None:
    """What a transpose makes a tensor of, and how; None where no transpose does."""
    op = rewriter.producer(tensor)
    if op is None or op.kind != "TRANSPOSE":
        return None
    order, source = permutation(op), op.inputs[0]
    if order is None or source is None or source.is_constant or not source.has_rank:
        return None
    return source, order


def _merge(op: Op, rewriter: Rewriter) -> bool:
    """Have a transpose of a transpose read what that one reads."""
    found, order = _order_of(op.inputs[0], rewriter), permutation(op)
    if found is None or order is None:
        return False
    source, first = found
    both = tuple(first[axis] for axis in order)
    merged = replace(op, inputs=[source, _list(both)], origin=_united(op, rewriter))
    rewriter.replace([op], merged)
    if both == tuple(range(len(both))):
        rewriter.bypass(merged, source)
    return True


def _as_reshape(op: Op, rewriter: Rewriter) -> bool:
    """A transpose that keeps the order of all axes but those of one element, read by reshapes."""
    source, result, order = op.inputs[0], op.outputs[0], permutation(op)
    if source is None or order is None or not source.has_rank or result in rewriter.boundary:
        return False
    kept = [axis for axis in order if source.shape[axis] != 1]
    sizes = [-1 if size is None else size for size in result.shape]
    readers = rewriter.readers(result)
    if kept != sorted(kept) or sizes.count(-1) > 1 or 0 in sizes or not readers:
        return False
    if not all(is_reshape(reader) for reader in readers):
        return False
    reshape = Op("RESHAPE", [source, _list(sizes)], [result], ReshapeAttrs(tuple(sizes)), op.origin)
    rewriter.replace([op], reshape)
    return True


def _move(op: Op, rewriter: Rewriter, movable: Movable) -> None:
    """Have an op run on what its transposed operands are made of, and transpose its results."""
    found = [_order_of(tensor, rewriter) for tensor in op.inputs]
    orders = {entry[1] for entry in found if entry is not None}
    if len(orders) != 1 or not movable(op) or not _gains(op, rewriter, movable):
        return
    (order,) = orders
    sources = [None if entry is None else entry[0] for entry in found]
    made = transposed(op, sources, order)
    if made is not None:
        _replace(op, made, rewriter)


def _united(op: Op, rewriter: Rewriter) -> Origin:
    """The origin of an op and of the transposes before it, which may be left without readers."""
    made = (rewriter.producer(t) for t in op.inputs if _order_of(t, rewriter) is not None)
    return Origin.union(part.origin for part in (op, *filter(None, made)))


def _gains(op: Op, rewriter: Rewriter, movable: Movable) -> bool:
    """Whether all that read the op's transposed operands can do without the transposes."""
    for tensor in op.inputs:
        found = _order_of(tensor, rewriter)
        if found is None or tensor is None:
            continue
        if tensor in rewriter.boundary:
            return False
        if rewriter.any_reader(tensor, partial(_needs, movable, *found)):
            return False
    return True


def _needs(movable: Movable, source: Tensor, order: Order, op: Op) -> bool:
    """Whether an op that reads a transposed tensor cannot do without the transpose."""
    if op.kind == "RESHAPE":
        return not movable(op) or reshaped(op, [source, *op.inputs[1:]], order) is None
    return op.kind != "TRANSPOSE" and not movable(op)


def _replace(op: Op, made: Transposed, rewriter: Rewriter) -> None:
    fresh = replace(op, inputs=made.inputs, attrs=made.attrs)
    fresh.outputs = [result.like() for result in op.outputs]
    for tensor, inferred in zip(fresh.outputs, get(op).infer(fresh), strict=True):
        tensor.shape, tensor.default_shape, tensor.dim_names = inferred.shape, None, ()
    origin = _united(op, rewriter)
    moved = [
        Op("TRANSPOSE", [inner, _list(made.order)], [outer], NoAttrs(), origin)
        for inner, outer in zip(fresh.outputs, op.outputs, strict=True)
    ]
    rewriter.replace([op], fresh, *moved)


def _list(values: Sequence[int]) -> Tensor:
    return constant("order", np.array(values, np.int32), dtype=DType.INT32)
