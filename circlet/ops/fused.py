"""Kinds of ops that only passes make: several ops of one backend that one kernel computes."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Op

FUSED_ELEMENTWISE = "FUSED_ELEMENTWISE"
FUSED_ROWS = "FUSED_ROWS"

MOST_OPERANDS = 12
MOST_FLOATS = 16
MOST_INTS = 32


@dataclass(frozen=True)
class FusedAttrs:
    """The ops that are computed together, in execution order, over their own tensors."""

    parts: tuple[Op, ...]
