"""The optimisation levels: lists of pass names, and how often each list may be repeated.

These passes rewrite whole networks. Backends have passes of their own over what was placed on them.
O2 is the fastest; Os is O2 with less memory before speed, which only backends tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from circlet.errors import InputError
from circlet.passes.manager import PassManager
from circlet.passes.registry import PASSES

EXACT = (
    "inline-composite",
    "decompose",
    "legalize-stablehlo",
    "split-sums",
    "fold-constants",
    "remove-identity",
    "gather-channels",
    "move-transposes",
    "canonicalize-reshape",
    "merge-reshapes",
    "fuse-pad",
    "fuse-activation",
    "remove-dead-ops",
)
FAST = ("fuse-qdq", *EXACT)  # integer products for real ones, which rounds them otherwise


@dataclass(frozen=True)
class Pipeline:
    """Pass names in order, run again while they change something, at most `rounds` times."""

    passes: tuple[str, ...]
    rounds: int = 1


PIPELINES = {
    "O0": Pipeline(()),
    "O1": Pipeline(EXACT),
    "O2": Pipeline(FAST, rounds=8),
    "Os": Pipeline(FAST, rounds=8),
}


def pipeline(
    level: str, *, check: bool = False, options: Mapping[str, Mapping[str, object]] | None = None
) -> PassManager:
    """The passes of an optimisation level, ready to run, with options for some by their names.

    Raises:
        InputError: There is no such level.
    """
    if level not in PIPELINES:
        fix = f"choose one of {', '.join(PIPELINES)}"
        raise InputError("there is no such optimisation level", where=level, fix=fix)
    chosen = PIPELINES[level]
    return PassManager(PASSES.made(chosen.passes, options or {}), check=check, rounds=chosen.rounds)
