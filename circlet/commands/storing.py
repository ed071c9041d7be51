"""Networks as files: what files have no words for is said otherwise first."""

from __future__ import annotations

from pathlib import Path

from circlet.formats import save
from circlet.ir import Model
from circlet.passes import PassManager, make
from circlet.passes.pipelines import STORABLE


def make_storable(model: Model) -> None:
    """Rewrite what .tflite and .circle files cannot say, in place, without changing a result."""
    PassManager(tuple(make(name) for name in STORABLE)).run(model)


def store(model: Model, path: Path, format: str) -> None:
    """Write a network to a file of a format, whole or not at all.

    Raises:
        CircletError: As `circlet.formats.save`.
    """
    make_storable(model)
    save(model, path, format)
