"""Weights that are next to nothing, which processors multiply many times slower, become nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Graph, Tensor
from circlet.passes import Contract, Rewriter
from circlet.passes.derived import Derived

_KINDS = frozenset(
    {"BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
)
_BLOCK = 1 << 18  # elements that are looked at at once
_BESIDE = np.float32(1e-30)
_NORMAL = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class FlushSubnormals:
    """Set subnormal float32 weights to zero beside weights that are not.

    Training with weight decay leaves them in filters that do nothing. XNNPACK in LiteRT and
    OpenVINO have the processor take all such numbers for zero. Below 1e-8 of the largest weight of
    their tensor, these are lost in the rounding of sums; tensors of tiny weights alone stay.

    Attributes:
        derived: The weights that were looked at so far.
    """

    name = "flush-subnormals"
    contract = Contract(tolerance=1e-6, why="weights below 1.2e-38 are taken for 0")
    needs = _KINDS
    derived: Derived = field(default_factory=Derived, compare=False)

    def run(self, graph: Graph) -> bool:
        """Replace every such tensor, once for all that read it."""
        rewriter = Rewriter(graph)
        read = dict.fromkeys(
            tensor
            for op in graph.ops
            if op.kind in _KINDS
            for tensor in op.inputs
            if tensor is not None and _may_hold(tensor) and tensor not in rewriter.boundary
        )
        for tensor in read:
            flushed = self.derived.of(tensor, self.name, partial(_flushed, tensor))
            if flushed is not None:
                rewriter.share(tensor, flushed)
        return rewriter.finish()


def _may_hold(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.sparsity is None and tensor.dtype is DType.FLOAT32


def _flushed(tensor: Tensor) -> Tensor | None:
    """Weights without their subnormal numbers; None where they stay as they are."""
    values = np.asarray(tensor.data)
    if not _has_subnormals(values) or not np.any(np.abs(values) >= _BESIDE):
        return None
    kept = np.where(np.abs(values) < _NORMAL, np.float32(0), values)
    kept.flags.writeable = False
    return replace(tensor, data=kept)


def _has_subnormals(values: npt.NDArray[np.float32]) -> bool:
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        size = np.abs(flat[start : start + _BLOCK])
        if np.any((size < _NORMAL) & (size != 0)):
            return True
    return False
