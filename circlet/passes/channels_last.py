"""Inputs and outputs in the order of axes that the network computes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circlet.ir import Graph, Op, Tensor
from circlet.ops.layout import permutation
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class ChannelsLast:
    """Drop transposes that only stand between the network and its inputs and outputs.

    Before: `x[1,3,8,8] -> TRANSPOSE [0,2,3,1] -> CONV_2D`. After: `x[1,8,8,3] -> CONV_2D`. Networks
    of channels first then take and give images with channels last. Changes what callers give and
    get, so no level has it.

    Attributes:
        inputs: Whether inputs change.
        outputs: Whether outputs change.
    """

    name = "channels-last"
    needs = frozenset({"TRANSPOSE"})
    contract = Contract(interface=True)
    inputs: bool = True
    outputs: bool = True

    def run(self, graph: Graph) -> bool:
        """Drop every transpose that stands there."""
        rewriter = Rewriter(graph)
        for tensor in graph.inputs if self.inputs else ():
            _drop_behind(tensor, rewriter)
        for tensor in graph.outputs if self.outputs else ():
            _drop_before(tensor, rewriter)
        return rewriter.finish()


def _drop_behind(tensor: Tensor, rewriter: Rewriter) -> None:
    """Give an input the order of axes in which all that read it want it."""
    readers = rewriter.readers(tensor)
    orders = {_order(op) for op in readers}
    outputs = rewriter.graph.outputs
    if len(orders) != 1 or tensor in outputs or any(op.outputs[0] in outputs for op in readers):
        return
    (order,) = orders
    if order is None or len(order) != len(tensor.shape):
        return
    _permute(tensor, order)
    for op in readers:
        rewriter.bypass(op, tensor)


def _drop_before(tensor: Tensor, rewriter: Rewriter) -> None:
    """Give an output the order of axes in which it is computed."""
    op = rewriter.producer(tensor)
    order = None if op is None else _order(op)
    source = None if op is None else op.inputs[0]
    if op is None or order is None or source is None or rewriter.readers(tensor):
        return
    if source in rewriter.boundary or rewriter.producer(source) is None:
        return
    back = [order.index(axis) for axis in range(len(order))]
    _permute(tensor, back)
    rewriter.bypass(op, source)


def _order(op: Op) -> tuple[int, ...] | None:
    if op.kind != "TRANSPOSE" or op.inputs[0] is None or not op.inputs[0].has_rank:
        return None
    return permutation(op)


def _permute(tensor: Tensor, order: Sequence[int]) -> None:
    tensor.shape = tuple(tensor.shape[axis] for axis in order)
    if tensor.default_shape is not None:
        tensor.default_shape = tuple(tensor.default_shape[axis] for axis in order)
    if tensor.dim_names:
        tensor.dim_names = tuple(tensor.dim_names[axis] for axis in order)
