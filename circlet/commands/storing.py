"""Networks as files: what files have no words for is said otherwise first."""

from __future__ import annotations

from pathlib import Path

from circlet.formats import save
from circlet.ir import Model
from circlet.passes import PassManager, make
from circlet.passes.pipelines import STORABLE, STORABLE_IN_ONNX


def make_storable(model: Model, format: str = "circle") -> None:
    """Rewrite what files of a format cannot say, in place, without changing a result."""
    names = STORABLE_IN_ONNX if format == "onnx" else STORABLE
    PassManager(tuple(make(name) for name in names)).run(model)


def store(model: Model, path: Path, format: str) -> None:
    """Write a network to a file of a format, whole or not at all.

    Raises:
        CircletError: As `circlet.formats.save`.
    """
    make_storable(model, format)
    save(model, path, format)
