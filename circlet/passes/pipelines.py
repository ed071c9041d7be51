"""The optimisation levels: lists of pass names, and how often each list may be repeated.

Two lists make a level: passes over the network, and passes over what was placed on native code.
The latter make ops of several, which only native code runs. O2 is the fastest; Os is O2 with less
memory before speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from circlet.errors import InputError
from circlet.passes.manager import Pass, PassManager
from circlet.passes.registry import make

EXACT = (
    "inline-composite",
    "fold-constants",
    "remove-identity",
    "canonicalize-reshape",
    "merge-reshapes",
    "fuse-pad",
    "fuse-activation",
    "remove-dead-ops",
)
NATIVE = (
    "convolve-images",
    "split-spread-pixel",
    "fuse-attention",
    "fuse-residual",
    "fuse-normalization",
    "fuse-tables",
    "fuse-elementwise",
    "fuse-bands",
)
SMALL = (*NATIVE[:-1], "save-memory", "fuse-bands")
# What they gain by other kernels is less than these take to be compiled.
_FIRST_SIZES_ONLY = frozenset({"fuse-bands"})


@dataclass(frozen=True)
class Pipeline:
    """Pass names in order, run again while they change something, at most `rounds` times.

    `native` names the passes that run once over each partition of native code; `in_place` says
    whether results there may take the memory of inputs that nothing reads afterwards.
    """

    passes: tuple[str, ...]
    rounds: int = 1
    native: tuple[str, ...] = ()
    in_place: bool = False


PIPELINES = {
    "O0": Pipeline(()),
    "O1": Pipeline(EXACT),
    "O2": Pipeline(EXACT, rounds=8, native=NATIVE, in_place=True),
    "Os": Pipeline(EXACT, rounds=8, native=SMALL, in_place=True),
}


def pipeline(level: str, *, check: bool = False) -> PassManager:
    """The passes of an optimisation level, ready to run; InputError for an unknown level."""
    chosen = _chosen(level)
    return PassManager(_made(chosen.passes), check=check, rounds=chosen.rounds)


def native_pipeline(level: str, *, resized: bool = False) -> PassManager:
    """The level's passes over native partitions; InputError for an unknown level.

    `resized` says that the network has kernels already, made for other sizes of its inputs.
    """
    names = _chosen(level).native
    kept = [name for name in names if not (resized and name in _FIRST_SIZES_ONLY)]
    return PassManager(_made(tuple(kept)))


def works_in_place(level: str) -> bool:
    """Whether native results may take the memory of inputs that are read no more."""
    return _chosen(level).in_place


def _made(names: tuple[str, ...]) -> tuple[Pass, ...]:
    return tuple(make(name) for name in names)


def _chosen(level: str) -> Pipeline:
    if level not in PIPELINES:
        fix = f"choose one of {', '.join(PIPELINES)}"
        raise InputError("there is no such optimisation level", where=level, fix=fix)
    return PIPELINES[level]
