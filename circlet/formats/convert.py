"""One model file to another, in the format of its suffix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from circlet.formats import load, save
from circlet.formats.origin_json import write_origins_json
from circlet.formats.paths import check_apart
from circlet.formats.registry import written_format
from circlet.ir import Model
from circlet.ir.file_operators import file_operators
from circlet.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True)
class Conversion:
    """What was written: counts are of the target, as a reader of it finds them."""

    source: str
    target: str
    format: str
    size_bytes: int
    graphs: int
    ops: int
    tensors: int


def convert(
    source: Path,
    target: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    origins: Path | None = None,
    prepare: Callable[[Model], None] | None = None,
) -> Conversion:
    """Read a model and write it in the format that the target's suffix names.

    Args:
        origins: A file of JSON to write as well: the source operators of each operator.
        prepare: Says otherwise, in place, what files have no words for.

    Raises:
        InputError: The suffix names no format, or the target is the source.
        CircletError: As `load` and `save`; where the target's format cannot hold the model, it
            says which operator or field, and nothing is written.
    """
    chosen = written_format(target)
    check_apart(target, [source])
    if origins is not None:
        check_apart(origins, [source, target])
    model = load(source, limits)
    if prepare is not None:
        prepare(model)
    save(model, target, chosen.name)
    written = load(target, limits)
    if origins is not None:
        write_origins_json(model, origins)
    return Conversion(
        str(source),
        str(target),
        chosen.name,
        target.stat().st_size,
        len(written.graphs),
        sum(len(file_operators(graph.ops)) for graph in written.graphs),
        sum(len(graph.tensors) for graph in written.graphs),
    )
