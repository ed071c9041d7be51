"""Where an operator comes from: the operators of the user's file that it descends from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class SourceOp:
    """One operator of the file that the user gave us.

    Attributes:
        id: Position in the first file of the chain, unique over all its subgraphs.
        name: The name the user knows it by (its first output tensor, as TFLite has no op names).
    """

    id: int
    name: str


@dataclass(frozen=True)
class Origin:
    """The non-empty set of source operators that an operator descends from, sorted by id."""

    sources: tuple[SourceOp, ...]

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("an origin names at least one source operator")

    @staticmethod
    def of(id: int, name: str) -> Origin:
        """The origin of an operator that comes straight from a file."""
        return Origin((SourceOp(id, name),))

    @staticmethod
    def union(origins: Iterable[Origin]) -> Origin:
        """All source operators of several origins; ValueError when there are none."""
        return Origin(tuple(sorted({s for origin in origins for s in origin.sources})))

    @property
    def name(self) -> str:
        """The source names, joined by '+'."""
        return "+".join(source.name for source in self.sources)

    def __str__(self) -> str:
        return self.name


def free_id(origins: Iterable[Origin]) -> int:
    """The first id above those of all sources of some origins."""
    return 1 + max((source.id for origin in origins for source in origin.sources), default=-1)
