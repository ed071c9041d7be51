"""Replace composites by the graphs that define them."""

from __future__ import annotations

from dataclasses import dataclass, field

from circlet.ir import Graph, Op
from circlet.ir.regions import most_copies, unfolded_ops
from circlet.passes.contract import BOUND, Contract
from circlet.passes.inlining import copied_ops, is_plain
from circlet.passes.rewriter import Rewriter

_KIND = "STABLEHLO_COMPOSITE"


class Copies:
    """How many ops may still be copied, which the first graph to be inlined decides."""

    def __init__(self) -> None:
        self._left: int | None = None

    def take(self, graph: Graph) -> bool:
        """Whether the copies that a graph needs may be made, which are counted if so."""
        counts = unfolded_ops(graph)
        if self._left is None:
            self._left = most_copies(sum(len(part.ops) for part in counts))
        needed = counts[graph] - len(graph.ops)
        if needed > self._left:
            return False
        self._left -= needed
        return True


@dataclass(frozen=True)
class InlineComposite:
    """Put a copy of its decomposition's ops in the place of each composite.

    Before: `STABLEHLO_COMPOSITE odml.rms_norm(x)`. After: `MUL(x, RSQRT(...))`. Every copied op has
    the composite's origin.

    Attributes:
        copies: What all inlining of one network may make.
    """

    name = "inline-composite"
    contract = Contract(
        native_only="delegates recognise a composite by its name",
        grows=dict.fromkeys(
            BOUND, "a composite counts as one operator, without the work that it is"
        ),
    )
    needs = frozenset({_KIND})
    copies: Copies = field(default_factory=Copies, compare=False)

    def run(self, graph: Graph) -> bool:
        """Inline each composite whose results are all computed; those inside it, too.

        A graph whose calls come to far more ops than there are stays as it is: records run it.
        """
        if not self.copies.take(graph):
            return False
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if _can_inline(op):
                rewriter.replace([op], *_decomposed(op))
        return rewriter.finish()


def _can_inline(op: Op) -> bool:
    """Whether each output of the decomposition is what one of its ops makes, used once."""
    if op.kind != _KIND or len(op.regions) != 1:
        return False
    return is_plain(op.regions[0])


def _decomposed(op: Op) -> list[Op]:
    """Copies of the ops that define a composite, over its operands and results."""
    made: list[Op] = []
    for copy in copied_ops(op, op.regions[0], op.inputs):
        made += _decomposed(copy) if _can_inline(copy) else [copy]
    return made
