"""Measurements as they are made, a line each: a search that was ended goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from circlet.errors import InputError
from circlet.json_files import reason_of
from circlet.placement.problem import Configuration, Measurement, Setting
from circlet.regular_files import open_regular, unwritable

_FORMAT = "circlet-measurements"
_VERSION = 1
_MOST_BYTES = 1 << 30


class Journal:
    """A file of measurements of one network under the same circumstances.

    A last line that was not written to its end is forgotten.

    Args:
        path: The file; it is made where there is none.
        about: What all measurements share; another file's must be the same.

    Attributes:
        known: What was measured, by configuration.

    Raises:
        FileError: It cannot be read or written.
        InputError: It holds something else, or measurements under other circumstances.
    """

    def __init__(self, path: Path, about: Mapping[str, object]) -> None:
        self.path = path
        self.known: dict[Configuration, Measurement] = {}
        head = {"format": _FORMAT, "version": _VERSION, **about}
        if path.exists():
            self._read(head)
        if not path.exists() or not path.stat().st_size:
            self._append(head)

    def add(self, configuration: Configuration, measurement: Measurement) -> None:
        """Keep a measurement; it is on the disk when this returns.

        Raises:
            FileError: It cannot be written.
        """
        self.known[configuration] = measurement
        self._append({**configuration.as_dict(), "measurement": measurement._asdict()})

    def _append(self, entry: Mapping[str, object]) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(_line(entry))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable("measurements", self.path, error) from error

    def _read(self, head: Mapping[str, object]) -> None:
        """Take over what a journal knows; a file that is none is left as it is."""
        with open_regular(self.path, "measurements") as file:
            data = file.read(_MOST_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        if whole or not _line(head).startswith(data):
            self.known = self._known(whole.splitlines(), head)
        if len(whole) < len(data) < _MOST_BYTES:
            os.truncate(self.path, len(whole))

    def _known(
        self, lines: Sequence[bytes], head: Mapping[str, object]
    ) -> dict[Configuration, Measurement]:
        try:
            found = json.loads(lines[0]) if lines else None
            if found == json.loads(json.dumps(head)):
                return dict(map(_entry, lines[1:]))
        except (ValueError, KeyError, TypeError) as error:
            what, why = "measurements cannot be read", reason_of(error)
            raise InputError(what, where=str(self.path), why=why) from None
        changed = []
        if isinstance(found, dict) and found.get("format") == _FORMAT:
            changed = [k for k in head if found.get(k) != json.loads(json.dumps(head[k]))]
        why = f"other {', '.join(changed)}" if changed else f"it is not of the format {_FORMAT}"
        raise InputError(
            "a file holds measurements of something else",
            where=str(self.path),
            why=why,
            fix="name another file, which is then made",
        )


def _line(entry: Mapping[str, object]) -> bytes:
    return (json.dumps(entry, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _entry(line: bytes) -> tuple[Configuration, Measurement]:
    entry = json.loads(line)
    return configuration_of(entry), Measurement(**entry["measurement"])


def configuration_of(entry: Mapping[str, object]) -> Configuration:
    """A configuration from plain data.

    Raises:
        KeyError, TypeError: It is none.
    """
    placement, setting = entry["placement"], entry["setting"]
    if not isinstance(placement, dict) or not isinstance(setting, dict):
        raise TypeError("a configuration is a placement and a setting")
    if not all(isinstance(text, str) for text in (*placement, *placement.values())):
        raise TypeError("a placement is a table of names")
    chosen = {name: value for name, value in setting.items() if value != ""}  # "" is no choice
    return Configuration(placement, Setting(**chosen))
