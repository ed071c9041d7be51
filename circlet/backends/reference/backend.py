"""The numpy backend: runs any op that has a record, exactly and slowly."""

from __future__ import annotations

from circlet.ir import Op
from circlet.ops import unsupported_reason
from circlet.ops.evaluate import evaluate_graph
from circlet.placement.interface import Reason, Supported

__all__ = ["ReferenceBackend", "evaluate_graph"]


class ReferenceBackend:
    """Evaluates ops by their records."""

    name = "reference"

    def supports(self, op: Op) -> Supported | Reason:
        """Every op whose record covers its types."""
        reason = unsupported_reason(op)
        return Supported("numpy") if reason is None else Reason(reason)
