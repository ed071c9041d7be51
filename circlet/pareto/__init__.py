"""Placements of a network that no other beats in both time and memory.

The package can be called as `circlet.pareto.api.pareto` can: `circlet.pareto(model)` means the same
whether or not the package is imported already.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from circlet.pareto.front import ParetoFront


class _CallableModule(ModuleType):
    def __call__(self, *given: Any, **options: Any) -> ParetoFront:
        from circlet.pareto.api import pareto

        return pareto(*given, **options)


sys.modules[__name__].__class__ = _CallableModule
