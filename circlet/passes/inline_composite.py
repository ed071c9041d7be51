"""Replace composites by the graphs that define them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op, Tensor
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
        """Inline each composite whose results are all computed; those inside it, too."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if _can_inline(op):
                _inline(op, rewriter)
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


def _inline(op: Op, rewriter: Rewriter) -> None:
    tensors: dict[Tensor, Tensor] = {}
    ops = _copies(op, tensors)
    rewriter.expand(op, ops)
    for tensor in tensors.values():
        rewriter.add(tensor)


def _copies(op: Op, added: dict[Tensor, Tensor]) -> list[Op]:
    region = op.regions[0]
    known: dict[Tensor, Tensor | None] = dict(zip(region.inputs, op.inputs, strict=True))
    known.update(zip(region.outputs, op.outputs, strict=True))

    def tensor(inner: Tensor | None) -> Tensor | None:
        if inner is None or inner in known:
            return known[inner] if inner is not None else None
        known[inner] = added[inner] = replace(inner, extra=dict(inner.extra))
        return known[inner]

    made: list[Op] = []
    for part in region.ops:
        outputs = [result for t in part.outputs if (result := tensor(t)) is not None]
        copy = replace(
            part, inputs=[tensor(t) for t in part.inputs], outputs=outputs, origin=op.origin
        )
        nested: dict[Tensor, Tensor] = {}
        made += _copies(copy, nested) if _can_inline(copy) else [copy]
        added.update(nested)
    return made
