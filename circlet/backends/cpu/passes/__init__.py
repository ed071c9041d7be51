"""Rewrites of native partitions, whose results only native code runs: one per file.

They run once over each partition, in the order of the level, after placement.
"""

from __future__ import annotations

from collections.abc import Mapping

from circlet.passes import PassManager, PassTable
from circlet.passes.decompose import Decompose
from circlet.passes.derived import Derived

PASSES = PassTable(
    "circlet.backends.cpu.passes",
    {
        "recognise-norms": "circlet.passes.recognise_norms:RecogniseNorms",
        "fold-scales": "circlet.passes.fold_scales:FoldScales",
        "flush-subnormals": "flush_subnormals:FlushSubnormals",
        "conv3d-to-conv2d": "conv3d_to_conv2d:Conv3DToConv2D",
        "split-broadcast-pixel": "split_broadcast_pixel:SplitBroadcastPixel",
        "turn-columns": "turn_columns:TurnColumns",
        "by-planes": "by_planes:ByPlanes",
        "transpose-places": "transpose_places:TransposePlaces",
        "scale-sums": "scale_sums:ScaleSums",
        "fuse-columns": "fuse_columns:FuseColumns",
        "fuse-attention": "fuse_attention:FuseAttention",
        "fuse-residual": "fuse_residual:FuseResidual",
        "fuse-normalization": "fuse_normalization:FuseNormalization",
        "fuse-tables": "fuse_tables:FuseTables",
        "fuse-elementwise": "fuse_elementwise:FuseElementwise",
        "fuse-stripes": "fuse_stripes:FuseStripes",
        "save-memory": "save_memory:SaveMemory",
    },
)
FAST = (
    "recognise-norms",
    "fold-scales",
    "flush-subnormals",
    "conv3d-to-conv2d",
    "split-broadcast-pixel",
    "turn-columns",
    "by-planes",
    "transpose-places",
    "scale-sums",
    "fuse-attention",
    "fuse-columns",
    "fuse-residual",
    "fuse-normalization",
    "fuse-tables",
    "fuse-elementwise",
    "fuse-stripes",
)
SMALL = (*FAST[:-1], "save-memory", "fuse-stripes")
LEVELS: dict[str, tuple[str, ...]] = {"O0": (), "O1": (), "O2": FAST, "Os": SMALL}
# Rows are normalised by `FUSED_ROWS`, whatever is computed before and after.
_OPTIONS = {"recognise-norms": {"of_rows": False}}
IN_PLACE = frozenset({"O2", "Os"})  # levels whose results may take the memory of dead inputs
# What they gain by other kernels is less than these take to be compiled.
_FIRST_SIZES_ONLY = frozenset({"fuse-stripes"})


def native_pipeline(
    level: str,
    *,
    resized: bool = False,
    check: bool = False,
    derived: Derived | None = None,
) -> PassManager:
    """The level's passes over a native partition; ops that no kernel takes are split first.

    Args:
        level: One of `LEVELS`.
        resized: Whether the network has kernels already, made for other sizes of its inputs.
        check: Whether to verify the partition after every pass.
        derived: What passes made of its constants at other sizes.
    """
    names = [name for name in LEVELS[level] if not (resized and name in _FIRST_SIZES_ONLY)]
    given = {"derived": derived or Derived()}
    options: dict[str, Mapping[str, object]] = {
        **_OPTIONS,
        "fold-scales": given,
        "flush-subnormals": given,
    }
    return PassManager((Decompose(), *PASSES.made(names, options)), check=check)
