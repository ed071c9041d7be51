"""How StableHLO kinds are said by kinds that kernels and passes know: one table, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circlet.passes.stablehlo.arithmetic import ARITHMETIC
from circlet.passes.stablehlo.movement import MOVEMENT
from circlet.passes.stablehlo.products import PRODUCTS
from circlet.passes.stablehlo.steps import Steps
from circlet.passes.stablehlo.windows import WINDOWS

# Each appends ops that make what the op makes; none where they cannot.
FORMS: Mapping[str, Callable[[Steps], None]] = {**ARITHMETIC, **MOVEMENT, **WINDOWS, **PRODUCTS}
