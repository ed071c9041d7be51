"""Records of the StableHLO operators of the file schemas.

They mean what LiteRT's kernels do where it has one, else what the StableHLO specification says.
Stored values are taken as they are: no kind here looks at scales.
"""

from circlet.ops.stablehlo import (  # noqa: F401
    choose,
    control,
    dynamic,
    elementwise,
    indexed,
    movement,
    pad,
    products,
    random,
    reduce,
    sort,
)
