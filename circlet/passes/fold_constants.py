"""Compute at compile time what depends on constants only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from circlet.errors import CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops import find, get, is_pure
from circlet.ops.growth import folding_bytes
from circlet.ops.verify import op_violations
from circlet.ops.work import FAILURES, work_of
from circlet.passes.match import element_count
from circlet.passes.rewriter import Rewriter

_ASKS_FOR_SIZES = frozenset({"SHAPE", "RANK"})
_FREE_BYTES, _GROWTH = 1 << 26, 8  # of all results together, over the bytes of the file
_COMPUTED = 16  # times that much may be taken in turn, results that are dropped again included
_FREE_WORK, _WORK_PER_BYTE = 1 << 30, 256


class FoldLedger:
    """What folding stored and did for one network, so that a small file cannot make it do much.

    Args:
        budget: What results are charged to.
    """

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget or DEFAULT_LIMITS.memory_budget(0)
        file_bytes = self._budget.file_bytes
        self._bytes_left = _FREE_BYTES + _GROWTH * file_bytes
        self._computed_left = _COMPUTED * self._bytes_left
        self._work_left = _FREE_WORK + _WORK_PER_BYTE * file_bytes
        self._stored: dict[Tensor, int] = {}

    def take(self, op: Op) -> bool:
        """Charge the results of an op; False, and nothing charged, where it is too much."""
        size = sum(tensor.size_bytes for tensor in op.outputs)
        needed, work = folding_bytes(op), work_of(op)
        room = min(self._computed_left, self._budget.left)
        if size > self._bytes_left or needed > room or work > self._work_left:
            return False
        self._computed_left -= needed
        self._work_left -= work
        for tensor in op.outputs:
            self._keep(tensor, tensor.size_bytes)
        return True

    def drop(self, tensors: Iterable[Tensor | None]) -> None:
        """Give back results, and their elements, that nothing reads any more."""
        for tensor in tensors:
            if tensor is not None and tensor in self._stored:
                self._keep(tensor, -self._stored.pop(tensor))
                tensor.data = None

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Keep results for good: copies of the graph that reads them read them as well."""
        for tensor in tensors:
            self._stored.pop(tensor, None)

    def _keep(self, tensor: Tensor, size: int) -> None:
        if size > 0:
            self._stored[tensor] = size
        self._bytes_left -= size
        self._budget.taken += size


@dataclass(frozen=True)
class FoldConstants:
    """Replace an op whose inputs are all constant by the constants it computes.

    Before: `DEQUANTIZE(float16 weights) -> CONV_2D`. After: `CONV_2D` over float32 weights. Ops
    that ask only for sizes are replaced where the sizes are known.

    Attributes:
        most_bytes: Largest result that is stored.
        most_growth: How many times larger than the inputs a result above `free_bytes` may be.
        free_bytes: Size of results that are stored whatever they are made of.
        sizes: Whether sizes are final, so that ops that ask for them are replaced too.
        keeps: Labels of ops that are left, as what they read is still wanted.
        ledger: What all folding of one network may store and do.
    """

    name = "fold-constants"
    most_bytes: int = 1 << 28
    most_growth: int = 4
    free_bytes: int = 1 << 16
    sizes: bool = True
    keeps: frozenset[str] = frozenset()
    ledger: FoldLedger = field(default_factory=FoldLedger, compare=False)

    def run(self, graph: Graph) -> bool:
        """Fold in execution order, so that chains fold in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            self.fold(op, rewriter)
        return rewriter.finish()

    def fold(self, op: Op, rewriter: Rewriter, *, was_checked: bool = False) -> None:
        """Put the constants that an op computes in its place, where that can be.

        `was_checked` says that the op breaks no rule of its record.
        """
        if self._can_fold(op, rewriter, was_checked):
            self._fold(op, rewriter)

    def _can_fold(self, op: Op, rewriter: Rewriter, was_checked: bool) -> bool:
        if not op.outputs or op.label in self.keeps:
            return False
        if op.kind in _ASKS_FOR_SIZES and not self.sizes:
            return False
        inputs: list[Tensor] = []
        for tensor in op.inputs:
            if tensor is not None and not _is_known(tensor, op, rewriter):
                return False
            inputs += [] if tensor is None else [tensor]
        if not inputs or not is_pure(op):
            return False
        if not was_checked and next(op_violations(op, rewriter.graph), None) is not None:
            return False
        free = all(_may_become_constant(tensor, rewriter) for tensor in op.outputs)
        return free and self._is_small(inputs, op.outputs)

    def _is_small(self, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
        result = sum(tensor.size_bytes for tensor in outputs)
        allowed = self.most_growth * sum(tensor.size_bytes for tensor in set(inputs))
        return result <= self.most_bytes and result <= max(allowed, self.free_bytes)

    def _fold(self, op: Op, rewriter: Rewriter) -> None:
        """Evaluate and store; an op that its record cannot evaluate is left to fail at run time."""
        if find(op.label) is None or not self.ledger.take(op):
            return
        values = _results(op)
        if values is None:
            self.ledger.drop(op.outputs)
            return
        rewriter.fold(op, values)
        known = (*op.inputs, *op.outputs)
        self.ledger.drop(t for t in known if t is not None and not rewriter.is_read(t))


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


def _results(op: Op) -> dict[Tensor, np.ndarray] | None:
    """What an op makes of its constants; None where that fails, or is not what was inferred."""
    try:
        results = get(op).evaluate(op, [_value(op, tensor) for tensor in op.inputs])
    except (CircletError, *FAILURES):
        return None
    if len(results) != len(op.outputs):
        return None
    values = dict(zip(op.outputs, results, strict=True))
    if not all(_fits(tensor, value) for tensor, value in values.items()):
        return None
    return {t: np.ascontiguousarray(v).reshape(v.shape) for t, v in values.items()}


def _value(op: Op, tensor: Tensor | None) -> np.ndarray | None:
    """An operand's elements; for ops that ask only for sizes, any of those sizes."""
    if tensor is None or op.kind not in _ASKS_FOR_SIZES:
        return None if tensor is None else tensor.data
    return np.broadcast_to(np.uint8(0), tensor.static_shape)


def _fits(tensor: Tensor, value: np.ndarray) -> bool:
    return value.shape == tensor.shape and value.dtype == tensor.dtype.numpy
