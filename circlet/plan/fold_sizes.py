"""Sizes that are known, of tensors of which others are not, become constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ops import get
from circlet.passes.rewriter import Rewriter

_TAKING = frozenset({"GATHER", "SLICE", "STRIDED_SLICE"})
_OPEN = np.iinfo(np.int32).min  # no size: stands for one that is not known


@dataclass(frozen=True)
class FoldSizes:
    """Replace what takes known sizes out of a SHAPE by these.

    Before: `GATHER(SHAPE(x[?, 4]), 1)`. After: the constant 4, with which what counts the classes
    of a detector is as large in every run.
    """

    name = "fold-sizes"

    def run(self, graph: Graph) -> bool:
        """Fold all that takes sizes that are known."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind not in _TAKING or op.outputs[0] in rewriter.boundary:
                continue
            made = _taken(op, rewriter.producer(op.input(0)))
            if made is not None:
                rewriter.fold(op, {op.outputs[0]: made})
        return rewriter.finish()


def _taken(op: Op, shape: Op | None) -> np.ndarray | None:
    """What an op takes of the sizes that another gives; None where some are not known."""
    source = None if shape is None or shape.kind != "SHAPE" else shape.input(0)
    others = [tensor for tensor in op.inputs[1:] if tensor is not None]
    if source is None or not source.has_rank or any(tensor.data is None for tensor in others):
        return None
    sizes = [_OPEN if size is None else size for size in source.shape]
    given = np.array(sizes, _type_of(op.input(0)))
    (made,) = get(op).evaluate(op, [given, *(tensor.data for tensor in others)])
    return None if (made == _OPEN).any() else np.array(made)


def _type_of(tensor: Tensor | None) -> np.dtype:
    assert tensor is not None
    return np.dtype(tensor.dtype.numpy)
