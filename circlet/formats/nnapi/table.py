"""The table of lowerings: what an operation of the Android Neural Networks API means in records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from circlet.formats.by_kind import ByKind

if TYPE_CHECKING:
    from circlet.formats.nnapi.call import Call

Lowering = Callable[["Call"], None]
LOWERINGS: ByKind[Lowering] = ByKind("lowering")
lowers = LOWERINGS.row
