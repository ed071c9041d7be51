"""Constants that passes make of other constants, kept for networks that are planned again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from circlet.ir import Tensor


class Derived:
    """What was made of constants, for as long as these live.

    A network at other sizes of its inputs has the same constants, as the same objects: what is made
    of one at some sizes is found again at others, and need neither be computed nor hashed.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Tensor, dict[Hashable, Tensor | None]] = WeakKeyDictionary()

    def of(self, source: Tensor, key: Hashable, make: Callable[[], Tensor | None]) -> Tensor | None:
        """What `make` gives of a constant under a key: another constant, or None for none."""
        known = self._known.setdefault(source, {})
        if key not in known:
            known[key] = make()
        return known[key]
