"""Runs a network that was partitioned into files: its parts one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from circlet.errors import FormatError
from circlet.formats.part_files import read_connection
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.runtime.session import Session


def run_connected(
    path: Path, inputs: Mapping[str, np.ndarray], options: Options = DEFAULT_OPTIONS
) -> dict[str, np.ndarray]:
    """The outputs, by name, of the parts that a .conn.json file lists, in its order.

    Raises:
        FormatError: It is no such file, or a part reads what nothing before it gives.
        CircletError: As `Session`.
    """
    connection = read_connection(path)
    values = dict(inputs)
    for part in connection.parts:
        session = Session.of(path.parent / part.file, options)
        given = [_value(values, name, path) for name in part.inputs]
        values.update(zip(part.outputs, session.run(given).values(), strict=True))
    return {name: _value(values, name, path) for name in connection.source.outputs}


def _value(values: Mapping[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    if name not in values:
        raise FormatError(
            "the parts of a network do not fit together",
            where=str(path),
            why=f"nothing before it gives {name!r}",
            fix="partition the network again",
        )
    return values[name]
