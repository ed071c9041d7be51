"""Copies of the ops of graphs that operators run, to stand in the operators' place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.ir import Graph, Op, Tensor


def is_plain(region: Graph) -> bool:
    """Whether each output of a graph is what one of its ops makes, used once, and no state."""
    made = {tensor for inner in region.ops for tensor in inner.outputs}
    distinct = len(set(region.outputs)) == len(region.outputs)
    stateless = not any(tensor.is_variable for tensor in region.used_tensors())
    return stateless and distinct and made.issuperset(region.outputs)


def copied_ops(op: Op, region: Graph, given: Sequence[Tensor | None]) -> list[Op]:
    """The ops of a plain graph over an op's operands and results, with the op's origin."""
    known: dict[Tensor, Tensor | None] = dict(zip(region.inputs, given, strict=True))
    known.update(zip(region.outputs, op.outputs, strict=True))

    def tensor(inner: Tensor | None) -> Tensor | None:
        if inner is None or inner in known:
            return known[inner] if inner is not None else None
        known[inner] = replace(inner, extra=dict(inner.extra))
        return known[inner]

    made: list[Op] = []
    for part in region.ops:
        outputs = [result for t in part.outputs if (result := tensor(t)) is not None]
        inputs = [tensor(t) for t in part.inputs]
        made.append(replace(part, inputs=inputs, outputs=outputs, origin=op.origin))
    return made
