"""The cpu backend as placement and the builder see it."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.control import is_control, refusal
from circlet.backends.cpu.lowering import LOWERINGS, Lowering
from circlet.ir import DType, Op
from circlet.ops import unsupported_reason
from circlet.ops.requantization import is_default
from circlet.placement.interface import Reason, Supported
from circlet.target.targets import Target


class CpuBackend:
    """Generated native code; takes an op when every target of the build has a kernel for it.

    Attributes:
        rows: The lowerings of ops that it took, for each target.
    """

    name = "cpu"

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)
        self.rows: dict[tuple[Op, Target], Lowering] = {}

    def supports(self, op: Op) -> Supported | Reason:
        """The name of the lowering, or the reasons of all rows of the kind."""
        unsupported = unsupported_reason(op)
        if unsupported is not None:
            return Reason(unsupported)
        if not is_default(op):
            return Reason(f"no kernel for {op.requantization}")
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and None in tensor.shape:
                return Reason("a shape depends on the data of a run")
            if tensor is not None and tensor.dtype is DType.STRING:
                return Reason("strings have no fixed size in memory")
        names = []
        for target in self._targets:
            if is_control(op):
                reason = refusal(op, target)
                if reason is not None:
                    return Reason(reason)
                names.append("jumps")
                continue
            row = LOWERINGS.choose(op, target)
            if isinstance(row, str):
                return Reason(row)
            self.rows[op, target] = row
            names.append(row.name)
        return Supported(names[0])
