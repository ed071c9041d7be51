"""Placements as files: which backend each operator of the user's file goes to, as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from circlet.errors import InputError
from circlet.options import Options, PlacementRules
from circlet.regular_files import open_regular, write_file

FORMAT = "circlet-placement"
VERSION = 1
_MOST_BYTES = 1 << 26


def write_placement(path: Path, backends: Mapping[str, str]) -> None:
    """Write the backends of operators, by source name, whole or not at all.

    Raises:
        FileError: It cannot be written.
    """
    found = {"format": FORMAT, "version": VERSION, "backends": dict(backends)}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    write_file(path, text.encode(), 0o644, "a placement")


def read_placement(path: Path) -> dict[str, str]:
    """The backends of operators by source name.

    Raises:
        FileError: The file cannot be read.
        InputError: It holds no placement.
    """
    with open_regular(path, "a placement") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        what, why = "a file is too large for a placement", f"more than {_MOST_BYTES:,} bytes"
        raise InputError(what, where=str(path), why=why)
    fix = "write one with circlet place MODEL -o FILE"
    try:
        found = json.loads(data.decode())
    except ValueError as error:
        why = f"it is no JSON: {error}"
        raise InputError("a placement cannot be read", where=str(path), why=why, fix=fix) from None
    table = found if isinstance(found, dict) else {}
    backends: object = table.get("backends")
    fits = (table.get("format"), table.get("version")) == (FORMAT, VERSION)
    is_table = isinstance(backends, dict) and all(isinstance(b, str) for b in backends.values())
    if not fits or not isinstance(backends, dict) or not is_table:
        why = f"it is not of the format {FORMAT}, version {VERSION}"
        raise InputError("a file holds no placement", where=str(path), why=why, fix=fix)
    return dict(backends)


def with_placement(options: Options, path: Path | None) -> Options:
    """Options that place operators as a file says, after their own rules; as they are for None.

    Raises:
        FileError: The file cannot be read.
        InputError: It holds no placement.
    """
    if path is None:
        return options
    return options._replace(backend_of=(*options.backend_of, *rules_of(read_placement(path))))


def rules_of(backends: Mapping[str, str]) -> PlacementRules:
    """Rules that place each operator as a file says."""
    return tuple((re.escape(source), name) for source, name in backends.items())
