"""Placements as files: which backend each operator of the user's file goes to, as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circlet.json_files import check_format, read_json
from circlet.options import Options, PlacementRules
from circlet.regular_files import write_file

FORMAT = "circlet-placement"
VERSION = 1


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
    fix = "write one with circlet place MODEL -o FILE"
    return read_json(path, "a placement", _backends, fix)


def _backends(found: Any) -> dict[str, str]:
    check_format(found, FORMAT, VERSION)
    for source, name in found["backends"].items():
        if not isinstance(name, str):
            raise ValueError(f"the backend of {source!r} is no name: {name!r}")
    return dict(found["backends"])


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
