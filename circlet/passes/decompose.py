"""Replace ops that others express by those."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from circlet.ir import Graph, Op
from circlet.limits import DEFAULT_LIMITS, MemoryBudget
from circlet.ops import all_records
from circlet.ops.decomposition import decomposed
from circlet.passes.contract import BOUND, Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class Decompose:
    """Put ops that kernels and passes know in the place of ops that only some files hold.

    Before: `RMS_NORM(x, gamma)`. After: `MUL(MUL(x, RSQRT(ADD(MEAN(MUL(x, x)), e))), gamma)`.
    Floats are rounded at each step instead of once, so results may differ in the last digits.

    Attributes:
        budget: What the constants are charged to that it makes.
    """

    name = "decompose"
    contract = Contract(
        tolerance=1e-6,
        why="floats are rounded at each step instead of once",
        native_only="others may have a kernel for the whole operator",
        grows=dict.fromkeys(BOUND, "one operator becomes several, with their constants"),
    )
    needs = frozenset(
        record.kind.partition(":")[0] for record in all_records() if record.decompose is not None
    )
    budget: MemoryBudget = field(
        default_factory=partial(DEFAULT_LIMITS.memory_budget, 0), compare=False
    )

    def run(self, graph: Graph) -> bool:
        """Replace every op whose record says how.

        Raises:
            LimitError: Constants would take more memory than is allowed.
        """
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            parts = decomposed(op) if self.takes(op) else []
            if parts:
                self._charge(op, parts)
                rewriter.replace([op], *parts)
        return rewriter.finish()

    def takes(self, op: Op) -> bool:
        """Whether an op is to be replaced where its record says how."""
        return True

    def _charge(self, op: Op, parts: list[Op]) -> None:
        given = {tensor for tensor in op.inputs if tensor is not None}
        used = {t for part in parts for t in part.inputs if t is not None and t.is_constant}
        size = sum(tensor.size_bytes for tensor in used - given)
        self.budget.charge(size, op.name, "constants in the form that kernels read")
