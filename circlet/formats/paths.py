"""Paths of files to write."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from circlet.errors import InputError


def check_apart(target: Path, sources: Iterable[Path | None]) -> None:
    """InputError where a file that is read would be written over."""
    for source in sources:
        with suppress(OSError, ValueError):  # whoever reads or writes it says what is wrong
            if source is not None and target.samefile(source):
                fix = "write to another file"
                raise InputError("this file is read, too", where=str(target), fix=fix)
