"""Replace ops that only Circle files hold by those that .tflite files hold, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from circlet.formats.registry import format_named
from circlet.ir import Op
from circlet.passes.decompose import Decompose


def _has() -> Callable[[str], bool]:
    known = format_named("tflite")
    assert known is not None
    return known.has


@dataclass(frozen=True)
class DecomposeForTflite(Decompose):
    """As `decompose`, for what .tflite files have no operator for.

    Before: `INSTANCE_NORM(x, gamma, beta)`. After: MEAN, SQUARED_DIFFERENCE, MEAN, ADD, RSQRT, MUL,
    SUB, MUL and ADD. Custom operators stay, as every such file may hold them.
    """

    name = "decompose-for-tflite"
    contract = replace(Decompose.contract, native_only="")
    needs = frozenset(kind for kind in Decompose.needs - {"CUSTOM"} if not _has()(kind))

    def takes(self, op: Op) -> bool:
        """Whether an op is none that files hold."""
        return op.kind in self.needs
