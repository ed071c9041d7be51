"""Layers at the peak of memory run stripe by stripe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from circlet.backends.cpu.passes.stripes import Chains, copy_inputs, links_of
from circlet.ir import Graph, Tensor


@dataclass(frozen=True)
class SaveMemory:
    """Join layers as `fuse-stripes` does while that lowers the most bytes alive at any time.

    Before: `CONV_2D(x) -> a, DEPTHWISE_CONV_2D(a) -> b`, where nothing else of the network needs as
    much memory as `x` and `a`, or `a` and `b`. After: one `FUSED_STRIPE(x) -> b`, and `a` is never
    whole. Only native code runs the result: placement comes first.

    Attributes:
        least_bytes: A peak that is low enough.
        buffer_bytes: What the rows of one stripe should fit.
        most_parts: Layers that run together.
    """

    least_bytes: int = 1 << 18
    buffer_bytes: int = 1 << 17
    most_parts: int = 3

    name = "save-memory"
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})

    def run(self, graph: Graph) -> bool:
        """Join layers from peak to peak until one cannot be lowered."""
        lives = _Lives(graph)
        chains = Chains(self.most_parts, self.buffer_bytes)
        chosen = chains.chosen(copy_inputs(graph))
        links = {link.image: link for link in links_of(graph)}
        while True:
            peak = lives.peak_without({link.image for link in chosen})
            if sum(tensor.size_bytes for tensor in peak) <= self.least_bytes:
                break
            largest = sorted(peak, key=lambda tensor: -tensor.size_bytes)
            fresh = [links[t] for t in largest if t in links and links[t] not in chosen]
            longer = (chains.chosen([*chosen, link]) for link in fresh)
            more = next((found for found in longer if len(found) > len(chosen)), None)
            if more is None:
                break
            chosen = more
        chains.fuse(graph, chosen)
        return bool(chosen)


class _Lives:
    """From which operator to which each computed tensor is needed."""

    def __init__(self, graph: Graph) -> None:
        self._spans: dict[Tensor, tuple[int, int]] = {}
        for position, op in enumerate(graph.ops):
            for tensor in (*op.inputs, *op.outputs):
                if tensor is not None and not tensor.is_constant:
                    first, _ = self._spans.get(tensor, (position, position))
                    self._spans[tensor] = first, position
        for tensor in (*graph.inputs, *graph.outputs):
            self._spans.pop(tensor, None)
        self._steps = len(graph.ops)

    def peak_without(self, gone: Collection[Tensor]) -> list[Tensor]:
        """The tensors alive at the operator at which most bytes are, some tensors left out."""
        alive: list[list[Tensor]] = [[] for _ in range(self._steps)]
        for tensor, (first, last) in self._spans.items():
            for step in range(first, last + 1) if tensor not in gone else ():
                alive[step].append(tensor)
        return max(alive, key=lambda tensors: sum(t.size_bytes for t in tensors), default=[])
