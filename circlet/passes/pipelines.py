"""The optimisation levels: lists of pass names, and how often each list may be repeated.

These passes rewrite whole networks. Backends have passes of their own over what was placed on them.
O2 is the fastest; Os is O2 with less memory before speed, which only backends tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from circlet.errors import InputError
from circlet.formats.registry import STORING, Format, format_named, storing_passes
from circlet.ops.micro_decode import MICRO_DECODE
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.passes.manager import PassManager
from circlet.passes.registry import PASSES

_COMMON = (
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
)
EXACT = (*_COMMON, "fuse-activation", "remove-dead-ops")
# Kernels of their own, which round otherwise.
FAST = (
    *_COMMON,
    "remove-duplicates",
    "move-reshapes",
    "fuse-activation",
    "fold-transposes",
    "recognise-activations",
    "recognise-softmax",
    "recognise-recurrent",
    "recognise-unrolled",
    "remove-dead-ops",
)

# What engines that read .tflite files want besides.
FOR_TFLITE_ENGINES = (*STORING, "state-sizes")

# What files gain by, too: operators that formats can say, and that other runtimes have kernels of.
# Native code does without some of it, as it fuses the same itself.
EXACT_FOR_FILES = (
    "fold-constants",
    "remove-identity",
    "remove-neutral",
    "remove-casts",
    "remove-duplicates",
    "simplify-slices",
    "simplify-splits",
    "simplify-pads",
    "move-transposes",
    "fold-moves",
    "canonicalize-reshape",
    "move-reshapes",
    "merge-reshapes",
    "fuse-squared-difference",
    "clamp-to-relu",
    *STORING,
    "fuse-pad",
    "fuse-activation",
    "remove-dead-ops",
)
FAST_FOR_FILES = (
    "recognise-norms",
    "recognise-rope",
    *EXACT_FOR_FILES[:-3],
    "fuse-rsqrt",
    "recognise-activations",
    "recognise-softmax",
    "merge-reductions",
    "matmul-to-fully-connected",
    "fold-transposes",
    "fold-scales",
    "merge-scales",
    "fold-input-scales",
    "join-layers",
    *EXACT_FOR_FILES[-3:],
)
_NATIVE: Mapping[str, Mapping[str, object]] = {
    # Only what operators compare by: sharing storage gains nothing, and hashing it takes time.
    "remove-duplicates": {"most_bytes": 1 << 10},
}
_NATIVE_EXACT: Mapping[str, Mapping[str, object]] = {"move-transposes": {"sums": False}}
_FOR_FILES: Mapping[str, Mapping[str, object]] = {
    # Constants in the form that takes less: 16-bit floats and integers stay what they are.
    "fold-constants": {
        "most_growth": 1,
        "free_bytes": 1 << 10,
        "keeps": frozenset({"DEQUANTIZE", "DENSIFY", f"CUSTOM:{MICRO_DECODE}", DEQUANTIZE}),
    },
    "fold-scales": {"copies": False},
}


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


FILE_PIPELINES = {
    "O0": Pipeline(()),
    "O1": Pipeline(EXACT_FOR_FILES, rounds=8),
    "O2": Pipeline(FAST_FOR_FILES, rounds=8),
    "Os": Pipeline(FAST_FOR_FILES, rounds=8),
}
_Options = Mapping[str, Mapping[str, object]]


def pipeline(level: str, *, check: bool = False, options: _Options | None = None) -> PassManager:
    """The passes of an optimisation level, ready to run, with options for some by their names.

    Raises:
        InputError: There is no such level.
    """
    usual = _joined(_NATIVE, _NATIVE_EXACT if level == "O1" else {})
    return _manager(_chosen(PIPELINES, level), check, _joined(usual, options or {}))


def file_pipeline(
    level: str, format: str, *, check: bool = False, options: _Options | None = None
) -> PassManager:
    """The passes of a level over a network that will be saved: as `pipeline`, but for files.

    Args:
        level: O1 keeps results bit for bit; O2 and Os round some floats otherwise.
        format: Name of the format the network is saved in, such as "tflite" or "circle"; passes
            that make operators which only some have run for those.
        check: Whether to verify the network before the first and after every pass.
        options: Options by names of passes.

    Raises:
        InputError: There is no such level.
    """
    chosen, usual = _chosen(FILE_PIPELINES, level), {"recognise-norms": {"format": format}}
    if chosen.passes:
        chosen = Pipeline(_for_format(chosen.passes, format), chosen.rounds)
    return _manager(chosen, check, _joined({**_FOR_FILES, **usual}, options or {}))


def _for_format(names: tuple[str, ...], format: str) -> tuple[str, ...]:
    """The passes of a list that files of a format gain by, behind what it has no words for."""
    known, storing = format_named(format), storing_passes(format)
    left_out = {name for name in STORING if name not in storing}
    left_out |= {name for name in names if not _is_had(PASSES.find(name), known)}
    first = (name for name in storing if name not in names)
    return (*first, *(name for name in names if name not in left_out))


def _is_had(kind: object, format: Format | None) -> bool:
    """Whether a format has an operator that a pass makes; most passes make what all have."""
    makes: frozenset[str] = getattr(kind, "makes", frozenset())
    return not makes or (format is not None and any(map(format.has, makes)))


def _joined(usual: _Options, given: _Options) -> _Options:
    names = dict.fromkeys([*usual, *given])
    return {name: {**usual.get(name, {}), **given.get(name, {})} for name in names}


def _chosen(levels: Mapping[str, Pipeline], level: str) -> Pipeline:
    if level not in levels:
        fix = f"choose one of {', '.join(levels)}"
        raise InputError("there is no such optimisation level", where=level, fix=fix)
    return levels[level]


def _manager(chosen: Pipeline, check: bool, options: _Options) -> PassManager:
    return PassManager(PASSES.made(chosen.passes, options), check=check, rounds=chosen.rounds)
