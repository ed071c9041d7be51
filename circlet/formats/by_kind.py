"""Tables of functions by kinds of operators, filled where the functions are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Row = TypeVar("Row", bound=Callable[..., object])


class ByKind(Generic[Row]):
    """One function for each kind.

    Args:
        role: What the functions are to kinds, for errors.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._rows: dict[str, Row] = {}

    def row(self, *kinds: str) -> Callable[[Row], Row]:
        """A decorator that enters a function; ValueError where a kind has one already."""

        def add(function: Row) -> Row:
            for kind in kinds:
                if kind in self._rows:
                    raise ValueError(f"{kind} has a {self._role} already")
                self._rows[kind] = function
            return function

        return add

    def find(self, kind: str) -> Row | None:
        """The function of a kind, or None."""
        return self._rows.get(kind)

    def kinds(self) -> list[str]:
        """The kinds that have one, sorted."""
        return sorted(self._rows)
