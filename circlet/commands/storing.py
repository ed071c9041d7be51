"""Networks as files: what files have no words for is said otherwise first."""

from __future__ import annotations

from pathlib import Path

from circlet.formats import save
from circlet.formats.registry import storing_passes
from circlet.ir import Model
from circlet.passes import PassManager, make


def make_storable(model: Model, format: str = "circle") -> None:
    """Rewrite what files of a format cannot say, in place, without changing a result."""
    PassManager(tuple(map(make, storing_passes(format)))).run(model)


def store(model: Model, path: Path, format: str) -> None:
    """Write a network to a file of a format, whole or not at all.

    Raises:
        CircletError: As `circlet.formats.save`.
    """
    make_storable(model, format)
    save(model, path, format)
