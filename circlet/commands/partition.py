"""What `circlet partition` does, as a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.artifact.values import unique_names
from circlet.commands.connected import run_connected
from circlet.commands.inputs import wanted_of
from circlet.commands.storing import make_storable
from circlet.errors import FileError, InputError
from circlet.formats import load, save
from circlet.formats.arrays import random_array
from circlet.formats.part_files import (
    Connected,
    Connection,
    Grouping,
    read_part_file,
    write_connection,
)
from circlet.formats.registry import format_named
from circlet.ir import Model, Tensor
from circlet.ir.file_operators import file_operators
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.plan.cut import HANDLES, check_state, part_of
from circlet.plan.partition import Partition, partition
from circlet.runtime.session import Session

_UNCHANGED = DEFAULT_OPTIONS._replace(level="O0")


@dataclass(frozen=True)
class PartitionRequest:
    """What `circlet partition` is asked for.

    Attributes:
        model: The network.
        part_file: ONE's .part file.
        folder: Where files are written; made where it is not there.
        backends, default: In place of what the .part file says.
        check: Whether the parts are run and compared with the whole.
        seed: Of the random data that they are run on.
    """

    model: Path
    part_file: Path
    folder: Path
    backends: tuple[str, ...] = ()
    default: str = ""
    check: bool = False
    seed: int = 0
    options: Options = _UNCHANGED


@dataclass(frozen=True)
class PartRow:
    """A part: its file, its group, and what it reads and makes."""

    file: str
    group: str
    ops: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class PartitionReport:
    """What was written.

    Attributes:
        parts: In the order in which they run.
        connection: The files that say so.
        unused: Rules of the .part file that no operator follows.
        is_identical: Whether the parts gave the same bits as the whole; None if not asked for.
    """

    folder: str
    parts: tuple[PartRow, ...]
    connection: tuple[str, ...]
    unused: tuple[str, ...]
    is_identical: bool | None = None


def partition_model(request: PartitionRequest) -> PartitionReport:
    """Write the parts of a network, one file each, and how they are connected.

    Raises:
        InputError: The groups would share state, or an output is a constant.
        CircletError: As `load`, `save` and `read_part_file`.
    """
    grouping = read_part_file(request.part_file, request.backends, request.default)
    model = load(request.model, request.options.limits)
    make_storable(model)
    graph = model.main
    parts = partition(graph, {op: grouping.group_of(op) for op in graph.ops})
    check_state(graph, [part.ops for part in parts])
    _check_crossing(model, parts)
    _name_crossing(model, parts)
    rows = _saved(model, parts, request)
    files = [request.folder / f"{request.model.stem}.conn{end}" for end in (".json", ".ini")]
    source = Connected(request.model.name, _names(graph.inputs), _names(graph.outputs))
    connected = tuple(Connected(row.file, row.inputs, row.outputs) for row in rows)
    write_connection(Connection(source, connected), *files)
    return PartitionReport(
        str(request.folder),
        rows,
        tuple(path.name for path in files),
        _unused(grouping, model),
        _is_identical(request, files[0], source.inputs) if request.check else None,
    )


def _saved(
    model: Model, parts: Sequence[Partition], request: PartitionRequest
) -> tuple[PartRow, ...]:
    known = format_named(model.source_format)
    suffix = model.source_format if known is not None and known.write is not None else "circle"
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError.unreadable("the folder", request.folder, error) from error
    rows = []
    for number, part in enumerate(parts, 1):
        name = f"{request.model.stem}.{number:05}_{part.backend}.{suffix}"
        graph = part.graph()
        save(part_of(model, graph), request.folder / name, suffix)
        count, ends = len(file_operators(part.ops)), (_names(graph.inputs), _names(graph.outputs))
        rows.append(PartRow(name, part.backend, count, *ends))
    return tuple(rows)


def _check_crossing(model: Model, parts: Sequence[Partition]) -> None:
    """See that parts can hand on all that others read, and that they make all outputs."""
    made = {tensor for part in parts for tensor in part.outputs} | {*model.main.inputs}
    for tensor in made:
        if tensor.dtype.name in HANDLES:
            raise InputError(
                "a handle of some state cannot go from file to file",
                where=tensor.name,
                fix="put the operators that use it into one group",
            )
    constant = [tensor.name for tensor in model.main.outputs if tensor not in made]
    if constant:
        raise InputError(
            "an output is a constant, which no part computes",
            where=constant[0],
            fix="cut it off with `circlet cut --to` first",
        )


def _name_crossing(model: Model, parts: Sequence[Partition]) -> None:
    """Give each tensor that goes from file to file a name of its own, in one line."""
    ends = [model.main.inputs, model.main.outputs, *(part.outputs for part in parts)]
    crossing = list(dict.fromkeys(tensor for tensors in ends for tensor in tensors))
    for number, tensor in enumerate(crossing):
        if not tensor.name.isprintable() or not tensor.name.strip():
            tensor.name = f"tensor_{number}"
    for tensor, name in zip(crossing, unique_names(crossing), strict=True):
        tensor.name = name


def _names(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in tensors)


def _unused(grouping: Grouping, model: Model) -> tuple[str, ...]:
    known = {key for op in model.main.ops for key in grouping.keys(op)}
    return tuple(rule for rule in grouping.rules if rule not in known)


def _is_identical(request: PartitionRequest, connection: Path, names: Sequence[str]) -> bool:
    """Whether the parts, in the order of the file, give the bits that the whole gives."""
    whole = Session.of(request.model, request.options)
    arrays = [random_array(wanted_of(value), request.seed) for value in whole.inputs]
    wanted = list(whole.run(arrays).values())
    given = dict(zip(names, arrays, strict=True))
    got = run_connected(connection, given, request.options).values()
    return all(_same(a, b) for a, b in zip(wanted, got, strict=True))


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype.hasobject:
        return first.tolist() == second.tolist()
    is_alike = first.dtype == second.dtype and first.shape == second.shape
    return is_alike and first.tobytes() == second.tobytes()
