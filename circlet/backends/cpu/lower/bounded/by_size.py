"""Kinds of which a run says how much they find: they are taken over bounds (`bound_finders.py`)."""

from __future__ import annotations

from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op
from circlet.ops.bounded import LIMITED, PROPOSED, SUPPRESSED
from circlet.target.targets import Target


def _depends_on_data(op: Op, target: Target) -> str | None:
    return "how many elements come out is known only when it has run"


def _never(op: Op, context: Context) -> None:
    raise AssertionError(f"{op.label} was refused")


for _kind in (
    "WHERE",
    "UNIQUE",
    "CUSTOM:onnx.Unique",
    "CUSTOM:onnx.Compress",
    SUPPRESSED,
    LIMITED,
    PROPOSED,
):
    LOWERINGS.add(Lowering(_kind, "by_size", _depends_on_data, _never))
