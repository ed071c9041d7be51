"""Replace a choice whose condition is constant by the graph that is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.regions import most_copies
from circlet.ops.facts import ShapeAttrs
from circlet.ops.shape import copy_op
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter

_KIND = "IF"


class BranchCopies:
    """How many ops may still be copied, which the first graph that has a choice decides."""

    def __init__(self) -> None:
        self._left: int | None = None

    def take(self, graph: Graph, needed: int) -> bool:
        """Whether so many copies may be made, which are counted if so."""
        if self._left is None:
            self._left = most_copies(len(graph.ops) + needed)
        if needed > self._left:
            return False
        self._left -= needed
        return True


@dataclass(frozen=True)
class InlineBranch:
    """Put a copy of the chosen graph's ops in the place of each IF of a constant condition.

    Before: `IF true, x` over two graphs. After: the ops of the first, over `x`.

    Attributes:
        copies: What all inlining of one network may make.
    """

    name = "inline-branch"
    contract = Contract(
        grows=dict.fromkeys(
            ("operators", "macs", "bytes_moved"),
            "the branch stays in its graph, too, where others may run it",
        )
    )
    needs = frozenset({_KIND})
    copies: BranchCopies = field(default_factory=BranchCopies, compare=False)

    def run(self, graph: Graph) -> bool:
        """Inline what is chosen for good; what that chooses in turn is inlined by the next run."""
        if not any(_is_settled(op) for op in graph.ops):
            return False
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.input(0) in rewriter.boundary:
                continue  # a value that the caller may change
            if _is_settled(op) and self.copies.take(graph, len(_chosen(op).ops)):
                rewriter.replace([op], *_inlined(op))
        return rewriter.finish()


def _is_settled(op: Op) -> bool:
    """Whether every run takes the same branch."""
    if op.kind != _KIND or len(op.regions) != 2:
        return False
    condition = op.input(0)
    known = condition is not None and condition.data is not None and condition.elements == 1
    return known and all(tensor.has_rank for tensor in _chosen(op).outputs)


def _chosen(op: Op) -> Graph:
    condition = op.inputs[0]
    assert condition is not None
    assert condition.data is not None
    return op.regions[0 if condition.data.any() else 1]


def _inlined(op: Op) -> list[Op]:
    """Copies of the ops of the branch that is taken, over the operands and results of the IF."""
    branch = _chosen(op)
    made = {tensor for inner in branch.ops for tensor in inner.outputs}
    known: dict[Tensor, Tensor | None] = dict(zip(branch.inputs, op.inputs[1:], strict=True))
    copied: list[tuple[Tensor, Tensor]] = []
    for inner, result in zip(branch.outputs, op.outputs, strict=True):
        result.shape, result.has_rank, result.default_shape = inner.shape, True, None
        if inner in made and inner not in known and not inner.is_variable:
            known[inner] = result
        else:
            copied.append((inner, result))

    def tensor(inner: Tensor | None) -> Tensor | None:
        if inner is None or inner in known:
            return None if inner is None else known[inner]
        if inner.is_constant or inner.is_variable:
            return inner
        known[inner] = replace(inner, extra=dict(inner.extra))
        return known[inner]

    ops = []
    for part in branch.ops:
        outputs = [twin for t in part.outputs if (twin := tensor(t)) is not None]
        ops.append(replace(part, inputs=[tensor(t) for t in part.inputs], outputs=outputs))
    for given, result in copied:
        source = tensor(given)
        assert source is not None
        ops += _copies(source, result, op)
    return ops


def _copies(source: Tensor, result: Tensor, op: Op) -> list[Op]:
    """Ops that copy a tensor, be its sizes known or not."""
    if None not in source.shape:
        return [copy_op(source, result, op.origin)]
    sizes = Tensor(f"{result.name} sizes", DType.INT32, (len(source.shape),))
    return [
        Op("SHAPE", [source], [sizes], ShapeAttrs(), op.origin),
        copy_op(source, result, op.origin, sizes),
    ]
