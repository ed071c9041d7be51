"""Origins as JSON beside a model: `{operator: [source operators]}`, by names.

It says what ONE's tables say, for files that are not to hold them and for other programs. Names are
those of `circlet.ir.naming`; operators of all graphs count, in file order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from circlet.errors import FormatError, InputError
from circlet.ir import Model, Origin, SourceOp
from circlet.ir.naming import operator_names, source_names
from circlet.ir.origin import free_id
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.regular_files import write_file
from circlet.stored import stored
from circlet.words import counted

_SHOWN = 8
Sources = Mapping[str, list[str]]


def origins_of(model: Model) -> dict[str, list[str]]:
    """For each operator of a model the names of its source operators, in their order."""
    ops = [op for graph in model.graphs for op in graph.ops]
    known = source_names(ops)
    return {
        name: [known[source] for source in op.origin.sources]
        for name, op in zip(operator_names(ops), ops, strict=True)
    }


def write_origins_json(model: Model, path: Path) -> None:
    """Write the origins of a model's operators to a file, whole or not at all."""
    text = json.dumps(origins_of(model), indent=2, ensure_ascii=False)
    write_file(path, f"{text}\n".encode("utf-8", "backslashreplace"), 0o666, "the file of origins")


def read_origins_json(path: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, list[str]]:
    """What a file of origins says.

    Raises:
        FileError: It cannot be read.
        LimitError: It is larger than a model file may be.
        FormatError: It holds something else.
    """
    file = stored(path)
    limits.check_file(file.size, str(path))
    try:
        found = json.loads(bytes(file.data()))
    except (ValueError, RecursionError) as error:
        raise _no_origins(path, str(error)) from None
    if not isinstance(found, dict):
        raise _no_origins(path, "it holds no object")
    for name, sources in found.items():
        is_list = isinstance(sources, list) and all(isinstance(s, str) for s in sources)
        if not is_list or not sources:
            raise _no_origins(path, f"{name!r} has no list of names of source operators")
    return found


def set_origins(model: Model, sources: Sources) -> None:
    """Give operators of a model, by their names, other origins; the rest keep theirs.

    Raises:
        InputError: The model has no operator of some name.
    """
    ops = [op for graph in model.graphs for op in graph.ops]
    named = dict(zip(operator_names(ops), ops, strict=True))
    unknown = [name for name in sources if name not in named]
    if unknown:
        shown = ", ".join(list(named)[:_SHOWN])
        raise InputError(
            "origins are given of operators that the network has not",
            where=", ".join(unknown[:_SHOWN]),
            why=f"it has {counted(len(ops), 'operator')}, such as {shown}",
            fix="give the origins that were written with this very file",
        )
    first = free_id(op.origin for op in ops)
    names = dict.fromkeys(source for given in sources.values() for source in given)
    made = {name: SourceOp(first + number, name) for number, name in enumerate(names)}
    for name, given in sources.items():
        named[name].origin = Origin(tuple(sorted({made[source] for source in given})))


def _no_origins(path: Path, why: str) -> FormatError:
    fix = 'give a file such as {"conv_relu": ["conv", "relu"]}'
    return FormatError("this is no file of origins", where=str(path), why=why, fix=fix)
