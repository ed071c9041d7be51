"""Fixes unknown sizes before compilation, and checks every op once its operands are known."""

from __future__ import annotations

from math import prod

from circlet.errors import CircletError, GraphError, LimitError
from circlet.ir import Graph, Op, Shape, Tensor
from circlet.ir.copy import copy_of_graph
from circlet.ir.regions import BRANCHES, LOOPS, reachable
from circlet.limits import Limits
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.opdef import takes_elements
from circlet.ops.ranks import forget_ranks, keeps_rank
from circlet.ops.refused import give_sizes, is_refusing, refusing
from circlet.ops.state import variables
from circlet.ops.verify import checked_types
from circlet.passes.fold_constants import FoldConstants, FoldLedger
from circlet.passes.fuse_list_update import FuseListUpdate
from circlet.passes.inline_branch import InlineBranch
from circlet.passes.rewriter import Rewriter
from circlet.plan.fold_sizes import FoldSizes
from circlet.plan.lower_onnx import LowerOnnx

_MOST_ELEMENTS = 1 << 58  # in sizes that are not 0, which numpy multiplies even for nothing
_ROUNDS = 64
_COPIED_PART = 8  # of the operators that a network may have, as copies for other sizes
Operands = tuple[Shape | None, ...]
_Call = tuple[Graph, Operands, tuple[Tensor | None, ...]]


def fix_shapes(
    graph: Graph,
    limits: Limits,
    *,
    resized: bool = False,
    ledger: FoldLedger | None = None,
    may_refuse: bool = True,
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
        may_refuse: Whether branches that sizes do not fit become such as end a run that takes them.

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
    settling = (folding, FoldSizes(), FuseListUpdate(), InlineBranch(), LowerOnnx(limits))
    inference = _Inference(limits, resized, folding, may_refuse)
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
        may_refuse: Whether a branch may be one that operands do not fit.
    """

    def __init__(
        self, limits: Limits, resized: bool, folding: FoldConstants, may_refuse: bool
    ) -> None:
        self._limits, self._resized, self._folding = limits, resized, folding
        self._may_refuse = may_refuse
        self._copied_ops = 0
        self._known: dict[_Call, Graph] = {}
        self._entered: set[Graph] = set()
        self._tried: list[Graph] | None = None  # copies in which sizes are folded, while some are

    def over(self, graph: Graph) -> bool:
        """Infer all shapes of a network anew; whether something was folded."""
        self._known.clear()
        self._entered.clear()
        return self._infer_and_fold(graph)

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
        if op.kind in BRANCHES:
            return self._branches(op, operands)
        made = [self._inferred(op, region, operands) for region in op.regions]
        if op.kind not in LOOPS:
            return made
        turned = _turned(operands, made[1])
        if turned == operands:
            return made
        return self._settled(op, operands) or self._regions(op, turned)

    def _branches(self, op: Op, operands: Operands) -> list[Graph]:
        """An op's branches for operands; one that these do not fit is an error if it is taken.

        Raises:
            GraphError: They fit none, or not all where none may refuse.
        """
        made: list[Graph] = []
        fitting: list[Graph] = []
        refusal: GraphError | None = None
        for region in op.regions:
            if is_refusing(region):
                made.append(region)
                continue
            known = dict(self._known)
            try:
                made.append(self._inferred(op, region, operands))
                fitting.append(made[-1])
            except GraphError as error:
                if not self._may_refuse:
                    raise
                self._known, refusal = known, error
                made.append(refusing(region, error))
        if refusal and not fitting:
            raise refusal
        for branch in made:
            if fitting and is_refusing(branch):
                give_sizes(branch, fitting[0].outputs)
        return made

    def _settled(self, op: Op, operands: Operands) -> list[Graph]:
        """Copies of a loop's graphs, sizes in them folded; none where a turn changes operands.

        That a turn gives what is as large as what it takes may be known only once the sizes are
        folded that it computes from sizes. In a copy this can be tried.
        """
        if self._tried is not None:
            return []
        known, copied_ops = self._known, self._copied_ops
        self._known, self._tried = {}, []
        try:
            made = [self._inferred(op, region, operands) for region in op.regions]
        except CircletError:
            made = []
        tried, self._known, self._tried = self._tried, known, None
        if made and _turned(operands, made[1]) == operands:
            self._known.update({(region, operands, ()): region for region in made})
            return made
        self._copied_ops = copied_ops
        self._folding.ledger.drop(tensor for graph in tried for tensor in graph.used_tensors())
        return []

    def _inferred(self, op: Op, region: Graph, operands: Operands) -> Graph:
        """A graph for the operands that an op gives it: the op's last ones."""
        kept = () if self._tried is None else _constants_kept(op)
        known = self._known.get((region, operands, kept))
        if known is not None:
            return known
        copied = region in self._entered or self._tried is not None
        made = self._copy(region, op) if copied else region
        self._entered.add(made)
        self._known[region, operands, kept] = self._known[made, operands, kept] = made
        for inner, shape in zip(made.inputs, operands, strict=False):
            if shape is not None:
                _set(inner, shape)
        if self._tried is None:
            for inner_op in made.ops:
                self._infer(inner_op, made)
        else:
            self._tried.append(made)
            self._folding.ledger.share(tensor for tensor in kept if tensor is not None)
            _read_constants(made, kept)
            self._infer_and_fold(made)
        return made

    def _infer_and_fold(self, graph: Graph) -> bool:
        """Infer the ops of a graph in order and fold what is known then; whether something was."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            self._infer(op, graph)
            self._folding.fold(op, rewriter, was_checked=True)
        return rewriter.finish()

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
        self._folding.ledger.share(copy.constants())
        for inner in copy.ops:
            for tensor in inner.outputs:
                tensor.shape = (None,) * len(tensor.shape)  # those of other operands
        return copy


def _constants_kept(op: Op) -> tuple[Tensor | None, ...]:
    """The constants that a loop is given and leaves as they are, by the place of its operands."""
    if op.kind not in LOOPS:
        return ()
    body = op.regions[1]
    places = zip(op.inputs, body.inputs, body.outputs, strict=False)
    return tuple(
        given if given is not None and given.is_constant and inner is result else None
        for given, inner, result in places
    )


def _read_constants(graph: Graph, constants: tuple[Tensor | None, ...]) -> None:
    """Have the ops of a graph read constants in place of its inputs, None for those that vary."""
    pairs = zip(graph.inputs, constants, strict=False)
    known = {inner: constant for inner, constant in pairs if constant is not None}
    for op in graph.ops:
        op.inputs = [known.get(t, t) if t is not None else None for t in op.inputs]


def _turned(operands: Operands, body: Graph) -> Operands:
    """The sizes that operands have before and behind a turn of a loop."""
    return tuple(map(_common, operands, body.outputs))


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
    if prod(size or 1 for size in tensor.shape) > _MOST_ELEMENTS:
        raise LimitError(
            "a tensor has sizes that no address reaches",
            where=where.name,
            why=f"{tensor.name!r} is {list(tensor.shape)}",
            fix="check the attributes of the operator: blocks, scales and repeats",
        )
    if tensor.size_bytes > limits.tensor_bytes:
        raise LimitError(
            "a tensor is larger than allowed",
            where=where.name,
            why=f"{tensor.size_bytes} bytes, the limit is {limits.tensor_bytes}",
            fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
        )
