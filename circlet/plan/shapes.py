"""Fixes unknown sizes before compilation, and checks every op once its operands are known."""

from __future__ import annotations

from circlet.errors import GraphError, LimitError
from circlet.ir import Graph, Op, Shape, Tensor
from circlet.ir.copy import copy_of_graph
from circlet.ir.regions import LOOPS, reachable
from circlet.limits import Limits
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.opdef import takes_elements
from circlet.ops.ranks import forget_ranks, keeps_rank
from circlet.ops.state import variables
from circlet.ops.verify import checked_types
from circlet.passes.fold_constants import FoldConstants, FoldLedger
from circlet.passes.fuse_list_update import FuseListUpdate
from circlet.passes.inline_branch import InlineBranch
from circlet.passes.rewriter import Rewriter
from circlet.plan.lower_onnx import LowerOnnx

_ROUNDS = 64
_COPIED_PART = 8  # of the operators that a network may have, as copies for other sizes
Operands = tuple[Shape | None, ...]


def fix_shapes(
    graph: Graph, limits: Limits, *, resized: bool = False, ledger: FoldLedger | None = None
) -> None:
    """Settle the shape of every tensor, from the inputs onwards, and verify the ops.

    Unknown sizes of inputs and variables take the file's default (1 where it has none); the
    records' inference carries them through the graph and into the graphs that its ops run. Shapes
    that are computed from constants and other shapes are folded on the way, lists updated in a
    way that keeps their shape known, branches that every run takes put in the place of their IF,
    and ONNX operators that were read with open sizes lowered. Only sizes that depend on data stay
    unknown. A graph that is called with operands of several sizes becomes one graph for each.

    Args:
        resized: Whether the same graph was found sound at other sizes.
        ledger: What folding may store and do.

    Raises:
        GraphError: An op breaks a rule of its record, or a rank stays unknown.
        LimitError: A tensor would be larger than the limits allow, or graphs are called with
            operands of too many sizes.
    """
    living = [tensor for part in reachable(graph) for tensor in variables(part)]
    for tensor in (*graph.inputs, *living):
        _set(tensor, tensor.static_shape)
        _check_size(tensor, tensor, limits)
    folding = FoldConstants(keeps=frozenset({DEQUANTIZE}), ledger=ledger or FoldLedger())
    settling = (folding, FuseListUpdate(), InlineBranch(), LowerOnnx(limits))
    inference = _Inference(limits, resized, folding)
    for _ in range(_ROUNDS):
        changed = [inference.over(graph)] + [
            rewrite.run(part) for part in reachable(graph) for rewrite in settling
        ]
        if not any(changed):
            break
    for part in reachable(graph):
        _check_ranks(part)


def _check_ranks(graph: Graph) -> None:
    for op in graph.ops:
        for tensor in op.outputs:
            if not tensor.has_rank:
                raise GraphError(
                    "the number of dimensions of a tensor is not known",
                    where=f"{op.name} ({op.label})",
                    why=f"that of {tensor.name!r} depends on the data of a run",
                    fix="export the model with shapes, or run onnx.shape_inference over it",
                )


class _Inference:
    """Walks over a network, each of which infers every graph once for each sizes of its operands.

    Args:
        limits: Bounds on tensors, work, and copies of graphs.
        resized: Whether the network was found sound at other sizes.
        folding: Folds what is known: sizes that follow from sizes are, ahead of what asks for them.
    """

    def __init__(self, limits: Limits, resized: bool, folding: FoldConstants) -> None:
        self._limits, self._resized, self._folding = limits, resized, folding
        self._copied_ops = 0
        self._known: dict[tuple[Graph, Operands], Graph] = {}
        self._entered: set[Graph] = set()

    def over(self, graph: Graph) -> bool:
        """Infer all shapes of a network anew; whether something was folded."""
        self._known.clear()
        self._entered.clear()
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            self._infer(op, graph)
            self._folding.fold(op, rewriter, was_checked=True)
        return rewriter.finish()

    def _infer(self, op: Op, graph: Graph) -> None:
        if op.regions and not takes_elements(op):
            given = op.inputs[len(op.inputs) - len(op.regions[-1].inputs) :]
            operands = tuple(None if outer is None else outer.shape for outer in given)
            op.regions = self._regions(op, operands)
        if not keeps_rank(op):
            forget_ranks(op)
            return
        types = checked_types(op, graph, resized=self._resized)
        for tensor, inferred in zip(op.outputs, types, strict=False):
            _set(tensor, inferred.shape, inferred.has_rank)
            _check_size(tensor, op, self._limits)

    def _regions(self, op: Op, operands: Operands) -> list[Graph]:
        """An op's graphs for operands: sizes that a turn of a loop changes are open in it."""
        made = [self._inferred(op, region, operands) for region in op.regions]
        if op.kind not in LOOPS:
            return made
        pairs = zip(operands, made[1].outputs, strict=False)
        turned = tuple(_common(shape, result) for shape, result in pairs)
        return made if turned == operands else self._regions(op, turned)

    def _inferred(self, op: Op, region: Graph, operands: Operands) -> Graph:
        """A graph for the operands that an op gives it: the op's last ones."""
        known = self._known.get((region, operands))
        if known is not None:
            return known
        made = self._copy(region, op) if region in self._entered else region
        self._entered.add(made)
        self._known[region, operands] = self._known[made, operands] = made
        for inner, shape in zip(made.inputs, operands, strict=False):
            if shape is not None:
                _set(inner, shape)
        for inner_op in made.ops:
            self._infer(inner_op, made)
        return made

    def _copy(self, region: Graph, op: Op) -> Graph:
        self._copied_ops += len(region.ops)
        if self._copied_ops > self._limits.ops // _COPIED_PART:
            raise LimitError(
                "graphs are called with operands of too many sizes",
                where=f"{op.name} ({op.label})",
                why=f"their copies come to more than {self._limits.ops // _COPIED_PART} operators",
                fix="raise `ops` of circlet.limits.Limits if this is meant",
            )
        copy = copy_of_graph(region)
        for inner in copy.ops:
            for tensor in inner.outputs:
                tensor.shape = (None,) * len(tensor.shape)  # those of other operands
        return copy


def _common(shape: Shape | None, result: Tensor) -> Shape | None:
    """The sizes that a value has before and behind a turn, where it has as many."""
    if shape is None or not result.has_rank or len(shape) != len(result.shape):
        return shape
    return tuple(a if a == b else None for a, b in zip(shape, result.shape, strict=True))


def _set(tensor: Tensor, shape: Shape, has_rank: bool = True) -> None:
    tensor.shape = shape
    tensor.has_rank = has_rank
    tensor.default_shape = None


def _check_size(tensor: Tensor, where: Op | Tensor, limits: Limits) -> None:
    if tensor.size_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is larger than allowed",
            where=where.name,
            why=f"{tensor.size_bytes} bytes, the limit is {limits.tensor_bytes}",
            fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
        )
