"""Layers at the peak of memory run stripe by stripe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate

from circlet.backends.cpu.passes.stripes import StripeFusion, copy_inputs, stripe_edges
from circlet.ir import Graph, Tensor
from circlet.passes import Contract, Rewriter


@dataclass(frozen=True)
class SaveMemory:
    """Fuse layers as `fuse-stripes` does while that lowers the most bytes alive at any time.

    Before: `CONV_2D(x) -> a, DEPTHWISE_CONV_2D(a) -> b`, where nothing else of the network needs as
    much memory as `x` and `a`, or `a` and `b`. After: one `FUSED_STRIPE(x) -> b`, and `a` is never
    whole.

    Attributes:
        least_bytes: A peak that is low enough.
        buffer_bytes: What the rows of one stripe should fit.
        most_parts: Layers that run together.
        most_rounds: How often to look for the peak.
    """

    least_bytes: int = 1 << 18
    buffer_bytes: int = 1 << 17
    most_parts: int = 3
    most_rounds: int = 256

    name = "save-memory"
    contract = Contract(
        grows=dict.fromkeys(("operators", "bytes_moved"), "an input that is padded is copied")
    )
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})

    def run(self, graph: Graph) -> bool:
        """Fuse layers from peak to peak until one cannot be lowered."""
        lifetimes, rewriter = _Lifetimes(graph), Rewriter(graph)
        fusion = StripeFusion(self.most_parts, self.buffer_bytes)
        chosen = fusion.chosen(copy_inputs(rewriter))
        edges = {edge.image: edge for edge in stripe_edges(rewriter)}
        for _ in range(self.most_rounds):
            peak = lifetimes.peak_without({edge.image for edge in chosen})
            if sum(tensor.size_bytes for tensor in peak) <= self.least_bytes:
                break
            largest = sorted(peak, key=lambda tensor: -tensor.size_bytes)
            fresh = [edges[t] for t in largest if t in edges and edges[t] not in chosen]
            longer = (fusion.chosen([*chosen, edge]) for edge in fresh)
            more = next((found for found in longer if len(found) > len(chosen)), None)
            if more is None:
                break
            chosen = more
        fusion.fuse(rewriter, chosen)
        return rewriter.finish()


class _Lifetimes:
    """From which operator to which each computed tensor is needed."""

    def __init__(self, graph: Graph) -> None:
        self._spans: dict[Tensor, tuple[int, int]] = {}
        for position, op in enumerate(graph.ops):
            for tensor in (*op.inputs, *op.outputs):
                if tensor is not None and not (tensor.is_constant or tensor.is_variable):
                    first, _ = self._spans.get(tensor, (position, position))
                    self._spans[tensor] = first, position
        for tensor in (*graph.inputs, *graph.outputs):
            self._spans.pop(tensor, None)
        self._steps = len(graph.ops)

    def peak_without(self, gone: Collection[Tensor]) -> list[Tensor]:
        """The tensors alive at the operator at which most bytes are, some tensors left out."""
        spans = {tensor: span for tensor, span in self._spans.items() if tensor not in gone}
        changes = [0] * (self._steps + 1)
        for tensor, (first, last) in spans.items():
            changes[first] += tensor.size_bytes
            changes[last + 1] -= tensor.size_bytes
        live = list(accumulate(changes))
        peak = live.index(max(live))
        return [tensor for tensor, (first, last) in spans.items() if first <= peak <= last]
