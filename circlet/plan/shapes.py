"""Fixes unknown sizes before compilation, and checks every op once its operands are known."""

from __future__ import annotations

from circlet.errors import LimitError
from circlet.ir import Graph, Op, Shape, Tensor
from circlet.ir.regions import reachable
from circlet.limits import Limits
from circlet.ops import find
from circlet.ops.verify import op_violations
from circlet.passes.fold_constants import FoldConstants
from circlet.passes.fuse_list_update import FuseListUpdate

_ROUNDS = 64


def fix_shapes(graph: Graph, limits: Limits) -> None:
    """Give every tensor of a graph a concrete shape, from the inputs onwards, and verify the ops.

    Unknown sizes of inputs take the file's default (1 where it has none); the records' inference
    carries them through the graph and into the graphs that its ops run. Shapes that are computed
    from constants and other shapes are folded on the way, and lists updated in a way that keeps
    their shape known. What depends on data takes the file's
    default.

    Raises:
        GraphError: An op breaks a rule of its record.
        LimitError: A tensor would be larger than the limits allow.
    """
    for tensor in graph.inputs:
        _set(tensor, tensor.static_shape)
        _check_size(tensor, tensor.name, limits)
    settling = (FoldConstants(), FuseListUpdate())
    for _ in range(_ROUNDS):
        _infer(graph, limits, may_be_unknown=True)
        changed = [rewrite.run(part) for part in reachable(graph) for rewrite in settling]
        if not any(changed):
            break
    _infer(graph, limits, may_be_unknown=False)


def _infer(graph: Graph, limits: Limits, *, may_be_unknown: bool) -> None:
    for op in graph.ops:
        for region in op.regions:
            _enter(op, region)
            _infer(region, limits, may_be_unknown=may_be_unknown)
        for violation in op_violations(op, graph):
            raise violation.error()
        record = find(op.label)
        for tensor, inferred in zip(op.outputs, record.infer(op) if record else (), strict=False):
            if None not in inferred.shape or may_be_unknown:
                _set(tensor, inferred.shape)
        for tensor in op.outputs:
            if not may_be_unknown:
                _set(tensor, tensor.static_shape)
            _check_size(tensor, op.name, limits)


def _enter(op: Op, region: Graph) -> None:
    """A region's inputs are the op's last operands."""
    given = op.inputs[len(op.inputs) - len(region.inputs) :]
    for inner, outer in zip(region.inputs, given, strict=False):
        if outer is not None:
            _set(inner, outer.shape)


def _set(tensor: Tensor, shape: Shape) -> None:
    """Change a shape; a default of the file stays as long as it may be needed."""
    tensor.shape = shape
    tensor.has_rank = True
    known = tensor.default_shape
    if None not in shape or known is None or len(known) != len(shape):
        tensor.default_shape = None


def _check_size(tensor: Tensor, where: str, limits: Limits) -> None:
    if tensor.size_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is larger than allowed",
            where=where,
            why=f"{tensor.size_bytes} bytes, the limit is {limits.tensor_bytes}",
            fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
        )
