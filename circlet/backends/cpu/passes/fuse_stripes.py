"""Layers over images that leave the cache run stripe by stripe."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.backends.cpu.passes.stripes import Edge, StripeFusion, row_macs, stripe_edges
from circlet.ir import DType, Graph
from circlet.passes import Rewriter

_AGAIN = 10  # how often shared rows are made again where threads take turns at stripes
_FLOAT_MACS = 2  # multiply-adds in the time that a byte takes to and from memory
_BYTE_MACS = 8


@dataclass(frozen=True)
class FuseStripes:
    """Let a layer read the image of the one before a few rows at a time, while they are in cache.

    Before: `CONV_2D(x) -> a, DEPTHWISE_CONV_2D(a) -> b`, where `a` is larger than the cache. After:
    one `FUSED_STRIPE(x) -> b` that makes some rows of `a`, then the rows of `b` that windows over
    them give, and so on. Each row is computed as before, so results stay equal bit for bit.

    Attributes:
        cache_bytes: Two smaller images, the one that is read and the one that is written, stay in
            the cache anyway, or next to it.
        buffer_bytes: What the rows of one stripe should fit.
        most_parts: Layers that run together.
    """

    cache_bytes: int = 1 << 20
    buffer_bytes: int = 1 << 19
    most_parts: int = 4

    name = "fuse-stripes"
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})

    def run(self, graph: Graph) -> bool:
        """Fuse all layers that gain by it."""
        rewriter = Rewriter(graph)
        fusion = StripeFusion(self.most_parts, self.buffer_bytes)
        fusion.fuse(rewriter, fusion.chosen(filter(self._is_profitable, stripe_edges(rewriter))))
        return rewriter.finish()

    def _is_profitable(self, edge: Edge) -> bool:
        """Whether the traffic that is saved is worth more than the rows that are made again."""
        image = edge.image
        whole = image.size_bytes // image.static_shape[0]
        rate = _FLOAT_MACS if image.dtype is DType.FLOAT32 else _BYTE_MACS
        again = _AGAIN * edge.shared_rows * row_macs(edge.producer) / rate
        return whole > self.cache_bytes and 2 * whole > again
