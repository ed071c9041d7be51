"""A whole model against every rule, without stopping at the first fault."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.errors import UnsupportedOp
from circlet.ir import Model
from circlet.ir.file_operators import file_operators
from circlet.ir.regions import check_unfolded
from circlet.ir.verify import Violation
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.verify import unsupported_ops, violations


@dataclass(frozen=True)
class Verification:
    """What is wrong with a model.

    Attributes:
        model: Its name.
        graphs, ops: What was checked, operators as the file has them.
        violations: Broken rules of the graphs and, where those hold, of the operators' records.
        unsupported: Operators that cannot be run.
    """

    model: str
    graphs: int
    ops: int
    violations: tuple[Violation, ...]
    unsupported: tuple[UnsupportedOp, ...]

    @property
    def ok(self) -> bool:
        """Whether the model keeps every rule and can be run."""
        return not self.violations and not self.unsupported


def verification(model: Model, limits: Limits = DEFAULT_LIMITS) -> Verification:
    """Check a model that was read.

    Raises:
        LimitError: Its graphs call each other too often.
    """
    violated = tuple(violations(model))
    if not violated:
        for graph in model.graphs[:1]:
            check_unfolded(graph, limits)
    return Verification(
        model.source_path,
        len(model.graphs),
        sum(len(file_operators(graph.ops)) for graph in model.graphs),
        violated,
        tuple(unsupported_ops(model)),
    )
