"""What is done with a hostile artifact: all but executing native code in it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from circlet import load_artifact
from circlet.artifact.file import open_artifact
from circlet.artifact.values import Value
from circlet.commands.inspect_artifact import inspect_artifact
from circlet.errors import CircletError
from circlet.formats import load
from circlet.formats.arrays import Wanted, random_array
from circlet.limits import Limits

Stage = Callable[[bytes, Limits], object]
_MOST_ELEMENTS = 1 << 20


def read_as_model(data: bytes, limits: Limits) -> None:
    """An artifact in the place of a model is refused, and nothing of it is executed."""
    with suppress(CircletError):
        load(data, limits)


def open_whole(data: bytes, limits: Limits) -> None:
    """Every hash, every section and every target."""
    artifact = open_artifact(data)
    artifact.check()
    artifact.verify_full()


def inspect(data: bytes, limits: Limits) -> None:
    """What `circlet inspect` tells, as JSON."""
    with tempfile.NamedTemporaryFile(suffix=".circlet") as file:
        file.write(data)
        file.flush()
        json.dumps(asdict(inspect_artifact(Path(file.name))))


def run(data: bytes, limits: Limits) -> None:
    """Load and run it, where the only code in it is that of a reference graph."""
    if not _is_interpreted(data):
        return
    session = load_artifact(data, threads=1, cache=False, limits=limits)
    session.run([_input(value) for value in session.inputs])


STAGES: tuple[tuple[str, Stage], ...] = (
    *(("model", read_as_model), ("open", open_whole), ("inspect", inspect), ("load", run)),
)


def _is_interpreted(data: bytes) -> bool:
    try:
        code = open_artifact(data).select()
    except CircletError:
        return True
    return all(part.backend == "reference" for part in code.partitions)


def _input(value: Value) -> object:
    wanted = Wanted(value.name, value.dtype, value.shape)
    return random_array(wanted, 0)
