"""REFUSED: a branch that must not be taken ends the run."""

from __future__ import annotations

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, StopRef
from circlet.ir import Op
from circlet.ops.refused import REFUSED
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    del target
    return next((reason for t in op.outputs if (reason := not_copyable(t))), None)


def _lower(op: Op, context: Context) -> None:
    context.call(
        op, Kernel("refusal.h", "refuse"), {"unused": 0}, (StopRef(),), op.outputs, tasks=1
    )


LOWERINGS.add(Lowering(REFUSED, "refuse", _refuses, _lower))
