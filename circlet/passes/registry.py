"""Passes by name; a pass's module is imported when the pass is made."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

from circlet.errors import InputError
from circlet.passes.manager import Pass

_CLASSES = {
    "fold-constants": "fold_constants:FoldConstants",
    "remove-dead-ops": "remove_dead_ops:RemoveDeadOps",
    "remove-identity": "remove_identity:RemoveIdentity",
    "canonicalize-reshape": "canonicalize_reshape:CanonicalizeReshape",
    "merge-reshapes": "merge_reshapes:MergeReshapes",
    "fuse-activation": "fuse_activation:FuseActivation",
    "fuse-pad": "fuse_pad:FusePad",
    "inline-composite": "inline_composite:InlineComposite",
    "unpack-constants": "unpack_constants:UnpackConstants",
    "fuse-list-update": "fuse_list_update:FuseListUpdate",
    "fuse-attention": "fuse_attention:FuseAttention",
    "convolve-images": "convolve_images:ConvolveImages",
    "split-spread-pixel": "split_spread_pixel:SplitSpreadPixel",
    "fuse-residual": "fuse_residual:FuseResidual",
    "fuse-bands": "fuse_bands:FuseBands",
    "save-memory": "save_memory:SaveMemory",
    "fuse-normalization": "fuse_normalization:FuseNormalization",
    "fuse-elementwise": "fuse_elementwise:FuseElementwise",
    "fuse-tables": "fuse_tables:FuseTables",
}


def pass_names() -> tuple[str, ...]:
    """Names of all passes."""
    return tuple(_CLASSES)


def make(name: str, **options: object) -> Pass:
    """The pass of a name, its dataclass fields set by `options`; InputError for unknown ones."""
    if name not in _CLASSES:
        near = get_close_matches(name, _CLASSES, 1)
        fix = f"did you mean '{near[0]}'?" if near else f"known passes: {', '.join(_CLASSES)}"
        raise InputError("there is no such pass", where=name, fix=fix)
    module, _, class_name = _CLASSES[name].partition(":")
    made = getattr(import_module(f"circlet.passes.{module}"), class_name)
    try:
        return cast(Pass, made(**options))
    except TypeError as error:
        raise InputError("a pass has no such option", where=name, why=str(error)) from None
