"""What `circlet cut` does, as a function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from circlet.commands.places import ends_named, starts_named
from circlet.commands.storing import store
from circlet.formats import load
from circlet.formats.paths import check_apart
from circlet.formats.registry import written_format
from circlet.ir.file_operators import file_operators
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.plan.cut import cut


@dataclass(frozen=True)
class CutRequest:
    """What `circlet cut` is asked for.

    Attributes:
        model, output: The files to read and to write.
        starts, ends: Operators and tensors as `circlet.commands.places` reads them; the network's
            own inputs and outputs where there are none.
    """

    model: Path
    output: Path
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class EndRow:
    """An input or output of the part."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class CutReport:
    """What was written: its inputs and outputs, and how many operators it has of how many."""

    output: str
    format: str
    size_bytes: int
    ops: int
    all_ops: int
    inputs: tuple[EndRow, ...]
    outputs: tuple[EndRow, ...]


def cut_model(request: CutRequest) -> CutReport:
    """Write a part of a network as a network of its own, or nothing.

    Raises:
        InputError: A name is not known, or the cut is not closed; see `circlet.plan.cut`.
        CircletError: As `load` and `save`.
    """
    chosen = written_format(request.output)
    check_apart(request.output, [request.model])
    model = load(request.model, request.limits)
    count = len(file_operators(model.main.ops))
    starts = starts_named(model.main, request.starts)
    part = cut(model, starts, ends_named(model.main, request.ends))
    store(part, request.output, chosen.name)
    return CutReport(
        str(request.output),
        chosen.name,
        request.output.stat().st_size,
        len(file_operators(part.main.ops)),
        count,
        tuple(EndRow(t.name, t.dtype.name, t.shape) for t in part.main.inputs),
        tuple(EndRow(t.name, t.dtype.name, t.shape) for t in part.main.outputs),
    )
