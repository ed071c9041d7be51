"""ONE's files of partitioned networks: `.part` says how to group operators, `.conn` what was made.

A `.part` file is INI: `[partition]` has `backends` (names of groups), `default` and `comply`, and
`[OPCODE]` or `[OPNAME]`, as `comply` says, groups of operators by kind or by name; `_` there is
another default. Files that end in .conn.json and .conn.ini list the parts in the order in which
they run; a part is given what parts before it, or the caller, gave under the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from configparser import ConfigParser, Error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from circlet.errors import FormatError
from circlet.ir import Op
from circlet.json_files import read_json
from circlet.regular_files import open_regular, write_file

_MOST_BYTES = 1 << 26
_GROUP = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECTIONS = {"opcode": ("OPCODE",), "opname": ("OPNAME", "OP")}


@dataclass(frozen=True)
class Grouping:
    """Which group each operator goes to.

    Attributes:
        groups: Their names.
        default: The group of operators that no rule names.
        by_name: Whether rules name operators; else they name kinds.
        rules: The group of each kind or name.
    """

    groups: tuple[str, ...]
    default: str
    by_name: bool = False
    rules: Mapping[str, str] = field(default_factory=dict)

    def group_of(self, op: Op) -> str:
        """The group of an operator."""
        key = next(filter(self.rules.__contains__, self.keys(op)), None)
        return self.default if key is None else self.rules[key]

    def keys(self, op: Op) -> tuple[str, ...]:
        """What a rule may call an operator."""
        if not self.by_name:
            return op.label, op.kind
        return op.name, *(source.name for source in op.origin.sources), *_outputs(op)

    def checked(self, path: Path) -> Grouping:
        """The same; FormatError where a group is none, or cannot be part of a file's name."""
        for group in (self.default, *self.rules.values()):
            if group not in self.groups:
                known = f"the file's backends are {', '.join(self.groups)}"
                raise _no_part(path, f"the group {group!r} is none of its backends: {known}")
        odd = [group for group in self.groups if not _GROUP.fullmatch(group)]
        if odd:
            raise _no_part(path, f"{odd[0]!r} cannot be part of a file's name")
        return self


@dataclass(frozen=True)
class Connected:
    """A network of several files, or one of its files: what goes in and out, by names."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Connection:
    """A partitioned network: the whole, and its parts in the order in which they run."""

    source: Connected
    parts: tuple[Connected, ...]


def read_part_file(path: Path, backends: Sequence[str] = (), default: str = "") -> Grouping:
    """What a .part file says; `backends` and `default` take the place of what stands there.

    Raises:
        FileError: It cannot be read.
        FormatError: It is no .part file, or names a group that is none.
    """
    parser = ConfigParser(delimiters=("=",), interpolation=None, empty_lines_in_values=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(_text(path))
    except Error as error:
        raise _no_part(path, error.message.replace("\n", " ")) from None
    if not parser.has_section("partition"):
        raise _no_part(path, "it has no section [partition]")
    said = parser["partition"]
    listed = filter(None, map(str.strip, said.get("backends", "").split(",")))
    groups, comply = tuple(backends) or tuple(listed), said.get("comply", "opcode").lower()
    if not groups:
        raise _no_part(path, "`backends` is missing")
    if comply not in _SECTIONS:
        raise _no_part(path, f"comply={comply} is unknown, known are {', '.join(_SECTIONS)}")
    rules: dict[str, str] = {}
    for section in _SECTIONS[comply]:
        rules |= dict(parser[section]) if parser.has_section(section) else {}
    other = rules.pop("_", "")
    chosen = default or other or said.get("default", "")
    if not chosen:
        raise _no_part(path, "`default` is missing")
    return Grouping(groups, chosen, comply == "opname", rules).checked(path)


def write_connection(connection: Connection, json_path: Path, ini_path: Path) -> None:
    """Write both files of a partitioned network."""
    document = {"source": _plain(connection.source), "parts": list(map(_plain, connection.parts))}
    write_file(json_path, (json.dumps(document, indent=2) + "\n").encode(), 0o666)
    lines = ["[source]", *_ini_lines(connection.source), "", "[models]"]
    lines += [f"m{number}={part.file}" for number, part in enumerate(connection.parts, 1)]
    for part in connection.parts:
        lines += ["", f"[{part.file}]", *_ini_lines(part)]
    write_file(ini_path, ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"), 0o666)


def read_connection(path: Path) -> Connection:
    """What a .conn.json file says.

    Raises:
        FileError: It cannot be read.
        FormatError: It is no .conn.json file, or names a file outside of its folder.
    """
    fix = "give a .conn.json file that `circlet partition` wrote"
    return read_json(path, "the parts of a network", _connection, fix, FormatError)


def _connection(document: Any) -> Connection:
    source, *parts = map(_connected, (document["source"], *document["parts"]))
    for part in parts:
        if Path(part.file).name != part.file or part.file in ("", "..", "."):
            raise ValueError(f"{part.file!r} is no name of a file beside it")
    return Connection(source, tuple(parts))


def _connected(fields: Mapping[str, object]) -> Connected:
    ends = (fields["inputs"], fields["outputs"])
    if not isinstance(fields["file"], str) or not all(isinstance(names, list) for names in ends):
        raise TypeError("a file with lists of inputs and outputs was expected")
    inputs, outputs = (tuple(map(str, names)) for names in ends)  # type: ignore[call-overload]
    return Connected(fields["file"], inputs, outputs)


def _plain(part: Connected) -> dict[str, object]:
    return {"file": part.file, "inputs": list(part.inputs), "outputs": list(part.outputs)}


def _ini_lines(part: Connected) -> list[str]:
    named = (("i", part.inputs), ("o", part.outputs))
    rows = [f"{key}{number}={name}" for key, names in named for number, name in enumerate(names, 1)]
    return [f"file={part.file}", *rows]


def _outputs(op: Op) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in op.outputs)


def _text(path: Path) -> str:
    with open_regular(path, "the file") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise FormatError("this is no text of a partition", where=str(path), why="it is too large")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("this is no text", where=str(path), why=str(error)) from None


def _no_part(path: Path, why: str) -> FormatError:
    fix = "give `[partition]` with `backends=` and `default=`, as docs/compare-and-cut.md shows"
    return FormatError("this is no .part file", where=str(path), why=why, fix=fix)
