"""Compute at compile time what depends on constants only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops import find, is_pure
from circlet.ops.verify import op_violations
from circlet.passes.match import element_count
from circlet.passes.rewriter import Rewriter

_ASKS_FOR_SIZES = frozenset({"SHAPE", "RANK"})


@dataclass(frozen=True)
class FoldConstants:
    """Replace an op whose inputs are all constant by the constants it computes.

    Before: `DEQUANTIZE(float16 weights) -> CONV_2D`. After: `CONV_2D` over float32 weights. Ops
    that ask only for sizes are replaced where the sizes are known.

    Attributes:
        most_bytes: Largest result that is stored.
        most_growth: How many times larger than the inputs a result above 64 KiB may be.
        sizes: Whether sizes are final, so that ops that ask for them are replaced too.
    """

    name = "fold-constants"
    most_bytes: int = 1 << 28
    most_growth: int = 4
    sizes: bool = True

    def run(self, graph: Graph) -> bool:
        """Fold in execution order, so that chains fold in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            self.fold(op, rewriter)
        return rewriter.finish()

    def fold(self, op: Op, rewriter: Rewriter) -> None:
        """Put the constants that an op computes in its place, where that can be."""
        if self._can_fold(op, rewriter):
            _fold(op, rewriter)

    def _can_fold(self, op: Op, rewriter: Rewriter) -> bool:
        if not is_pure(op) or not op.outputs:
            return False
        if op.kind in _ASKS_FOR_SIZES and not self.sizes:
            return False
        inputs: list[Tensor] = []
        for tensor in op.inputs:
            if tensor is not None and not _is_known(tensor, op, rewriter):
                return False
            inputs += [] if tensor is None else [tensor]
        if not inputs:
            return False
        if next(op_violations(op, rewriter.graph), None) is not None:
            return False
        free = all(_may_become_constant(tensor, rewriter) for tensor in op.outputs)
        return free and self._is_small(inputs, op.outputs)

    def _is_small(self, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
        result = sum(tensor.size_bytes for tensor in outputs)
        allowed = self.most_growth * sum(tensor.size_bytes for tensor in inputs)
        return result <= self.most_bytes and result <= max(allowed, 1 << 16)


def _is_known(tensor: Tensor, op: Op, rewriter: Rewriter) -> bool:
    """Whether what the op asks for is known: the sizes, or elements that are stored plainly.

    A constant graph input is the caller's business.
    """
    if op.kind in _ASKS_FOR_SIZES:
        return tensor.has_rank and element_count(tensor) is not None
    dense = tensor.is_constant and tensor.sparsity is None and tensor.dtype.has_numpy
    return dense and tensor not in rewriter.boundary


def _may_become_constant(tensor: Tensor, rewriter: Rewriter) -> bool:
    fixed = tensor in rewriter.boundary or tensor.is_variable
    return not fixed and tensor.dtype.has_numpy and element_count(tensor) is not None


def _fold(op: Op, rewriter: Rewriter) -> None:
    """Evaluate and store; an op that its record cannot evaluate is left to fail at run time."""
    record = find(op.label)
    if record is None:
        return
    try:
        results = record.evaluate(op, [_value(op, tensor) for tensor in op.inputs])
    except CircletError:
        return
    values = dict(zip(op.outputs, results, strict=True))
    if all(_fits(tensor, value) for tensor, value in values.items()):
        rewriter.fold(op, {t: np.ascontiguousarray(v).reshape(v.shape) for t, v in values.items()})


def _value(op: Op, tensor: Tensor | None) -> np.ndarray | None:
    """An operand's elements; for ops that ask only for sizes, any of those sizes."""
    if tensor is None or op.kind not in _ASKS_FOR_SIZES:
        return None if tensor is None else tensor.data
    return np.broadcast_to(np.uint8(0), tensor.static_shape)


def _fits(tensor: Tensor, value: np.ndarray) -> bool:
    return value.shape == tensor.shape and value.dtype == tensor.dtype.numpy
