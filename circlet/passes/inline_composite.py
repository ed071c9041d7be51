"""Replace composites by the graphs that define them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op, Tensor
from circlet.ir.regions import most_copies, unfolded_ops
from circlet.passes.rewriter import Rewriter

_KIND = "STABLEHLO_COMPOSITE"


@dataclass(frozen=True)
class InlineComposite:
    """Put a copy of its decomposition's ops in the place of each composite.

    Before: `STABLEHLO_COMPOSITE odml.rms_norm(x)`. After: `MUL(x, RSQRT(...))`. Every copied op has
    the composite's origin.
    """

    name = "inline-composite"
    needs = frozenset({_KIND})

    def run(self, graph: Graph) -> bool:
        """Inline each composite whose results are all computed; those inside it, too.

        A graph whose calls come to far more ops than there are stays as it is: records run it.
        """
        counts = unfolded_ops(graph)
        if counts[graph] > most_copies(sum(len(part.ops) for part in counts)):
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
    region = op.regions[0]
    made = {tensor for inner in region.ops for tensor in inner.outputs}
    distinct = len(set(region.outputs)) == len(region.outputs)
    plain = not any(tensor.is_variable for tensor in region.used_tensors())
    return plain and distinct and made.issuperset(region.outputs)


def _decomposed(op: Op) -> list[Op]:
    """Copies of the ops that define a composite, over its operands and results."""
    region = op.regions[0]
    known: dict[Tensor, Tensor | None] = dict(zip(region.inputs, op.inputs, strict=True))
    known.update(zip(region.outputs, op.outputs, strict=True))

    def tensor(inner: Tensor | None) -> Tensor | None:
        if inner is None or inner in known:
            return known[inner] if inner is not None else None
        known[inner] = replace(inner, extra=dict(inner.extra))
        return known[inner]

    made: list[Op] = []
    for part in region.ops:
        outputs = [result for t in part.outputs if (result := tensor(t)) is not None]
        copy = replace(
            part, inputs=[tensor(t) for t in part.inputs], outputs=outputs, origin=op.origin
        )
        made += _decomposed(copy) if _can_inline(copy) else [copy]
    return made
