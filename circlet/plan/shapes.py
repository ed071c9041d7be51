"""Fixes unknown sizes before compilation, and checks every op once its operands are known."""

from __future__ import annotations

from circlet.errors import LimitError
from circlet.ir import Graph, Op, Shape, Tensor
from circlet.ir.regions import reachable
from circlet.limits import Limits
from circlet.ops import find
from circlet.ops.state import variables
from circlet.ops.verify import checked_types
from circlet.passes.fold_constants import FoldConstants
from circlet.passes.fuse_list_update import FuseListUpdate
from circlet.passes.rewriter import Rewriter

_ROUNDS = 64


def fix_shapes(graph: Graph, limits: Limits, *, resized: bool = False) -> None:
    """Settle the shape of every tensor, from the inputs onwards, and verify the ops.

    Unknown sizes of inputs and variables take the file's default (1 where it has none); the
    records' inference carries them through the graph and into the graphs that its ops run. Shapes
    that are computed from constants and other shapes are folded on the way, and lists updated in a
    way that keeps their shape known. Only sizes that depend on data stay unknown.

    `resized` says that the same graph was found sound at other sizes.

    Raises:
        GraphError: An op breaks a rule of its record.
        LimitError: A tensor would be larger than the limits allow.
    """
    living = [tensor for part in reachable(graph) for tensor in variables(part)]
    for tensor in (*graph.inputs, *living):
        _set(tensor, tensor.static_shape)
        _check_size(tensor, tensor, limits)
    settling = (FoldConstants(), FuseListUpdate())
    for _ in range(_ROUNDS):
        folded = _infer_and_fold(graph, limits, resized)
        changed = [folded] + [
            rewrite.run(part) for part in reachable(graph) for rewrite in settling
        ]
        if not any(changed):
            break


def _infer_and_fold(graph: Graph, limits: Limits, resized: bool) -> bool:
    """Settle op by op; sizes that follow from sizes are known before what asks for them next."""
    rewriter, folding = Rewriter(graph), FoldConstants()
    for op in rewriter.ops():
        _infer_op(op, graph, limits, resized)
        folding.fold(op, rewriter)
    return rewriter.finish()


def _infer_op(op: Op, graph: Graph, limits: Limits, resized: bool) -> None:
    for region in op.regions:
        _enter(op, region)
        for inner in region.ops:
            _infer_op(inner, region, limits, resized)
    types = checked_types(op, graph, resized=resized)
    for tensor, inferred in zip(op.outputs, types, strict=False):
        _set(tensor, inferred.shape)
        _check_size(tensor, op, limits)
    record = find(op.label)
    if record is not None:
        _check_work(op, record.cost(op).macs, limits)


def _enter(op: Op, region: Graph) -> None:
    """A region's inputs are the op's last operands."""
    given = op.inputs[len(op.inputs) - len(region.inputs) :]
    for inner, outer in zip(region.inputs, given, strict=False):
        if outer is not None:
            _set(inner, outer.shape)


def _set(tensor: Tensor, shape: Shape) -> None:
    tensor.shape = shape
    tensor.has_rank = True
    tensor.default_shape = None


def _check_work(op: Op, macs: int, limits: Limits) -> None:
    if macs > limits.op_macs:
        raise LimitError(
            "an operator has more work to do than allowed",
            where=f"{op.name} ({op.label})",
            why=f"{macs} multiply-accumulates, the limit is {limits.op_macs}",
            fix="raise `op_macs` of circlet.limits.Limits if this is meant",
        )


def _check_size(tensor: Tensor, where: Op | Tensor, limits: Limits) -> None:
    if tensor.size_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is larger than allowed",
            where=where.name,
            why=f"{tensor.size_bytes} bytes, the limit is {limits.tensor_bytes}",
            fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
        )
