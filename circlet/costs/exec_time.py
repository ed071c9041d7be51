"""ONE's exec_time.json: microseconds of operators by backend, name, quantisation and size.

`{"<backend>": {"<operator, or another backend>": {"0" or "1": [[bytes, us], ...]}}}`. The bytes
are those of all operands and results, constants included, and "1" is for unsigned quantised bytes.
Where the inner name is a backend, the times are of transfers from the outer to it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from circlet.json_files import read_json
from circlet.regular_files import write_file

UNSUPPORTED = 2**31 - 1
"""The time of an operator that a backend does not take."""

_WHAT = "times of operators"
_MOST_SIZE, _MOST_US = 2**32 - 1, 2**63 - 1
Key = tuple[str, str, bool]


class Record(NamedTuple):
    """One time.

    Attributes:
        name: ONE's name of an operator, or another backend.
        quantised: Whether an input is of unsigned quantised bytes.
    """

    backend: str
    name: str
    quantised: bool
    size: int
    us: int


class ExecTime:
    """The times of such a file, with ONE's rules of updating and of interpolation."""

    def __init__(self) -> None:
        self._times: dict[Key, dict[int, int]] = {}

    def update(self, record: Record) -> None:
        """Add a time: the mean of it and the one that was there.

        An operator that a backend does not take at one size is not taken at any.
        """
        known = self._times.setdefault(record[:3], {})
        if UNSUPPORTED in (record.us, *known.values()):
            known.clear()
            known[record.size] = UNSUPPORTED
            return
        before = known.get(record.size, record.us)
        known[record.size] = (before + record.us) // 2

    def put(self, record: Record) -> None:
        """Add a time in place of the one that was there."""
        self._times.setdefault(record[:3], {})[record.size] = record.us

    def lookup(self, backend: str, name: str, quantised: bool, size: int) -> int | None:
        """Microseconds at a size, on a line between or beyond the neighbours; None if unknown."""
        known = self._times.get((backend, name, quantised))
        if not known:
            return None
        if size in known or len(known) == 1:
            return known.get(size, next(iter(known.values())))
        sizes = sorted(known)
        upper = min(max(bisect_right(sizes, size), 1), len(sizes) - 1)
        x0, x1 = sizes[upper - 1], sizes[upper]
        y0, y1 = known[x0], known[x1]
        us = y0 + _quotient((size - x0) * (y1 - y0), x1 - x0)
        return y0 if us < 0 and size > x1 else max(us, 1)

    def records(self) -> Iterator[Record]:
        """All times, in the order of the file."""
        for (backend, name, quantised), known in sorted(self._times.items()):
            for size, us in sorted(known.items()):
                yield Record(backend, name, quantised, size, us)

    def text(self) -> str:
        """The file, spaced as ONE writes it."""
        found: dict[str, dict[str, dict[str, list[list[int]]]]] = {}
        for backend, name, quantised, size, us in self.records():
            own = found.setdefault(backend, {}).setdefault(name, {})
            own.setdefault(str(int(quantised)), []).append([size, us])
        return json.dumps(found)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; FileError where it cannot be written."""
        write_file(path, self.text().encode(), 0o644, _WHAT)

    @staticmethod
    def read(path: Path) -> ExecTime:
        """The times of a file.

        Raises:
            FileError: It cannot be read.
            InputError: It is no such file.
        """
        made = ExecTime()
        fix = 'ONE writes {"backend": {"Conv2D": {"0": [[bytes, microseconds], ...]}}}'
        for record in read_json(path, _WHAT, lambda found: [*_records(found)], fix):
            made.put(record)
        return made


def _quotient(dividend: int, divisor: int) -> int:
    """Division of whole numbers towards zero, as C has it."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _records(found: dict[str, dict[str, dict[str, list[list[int]]]]]) -> Iterator[Record]:
    """The times of parsed JSON; ValueError and the like where it is something else."""
    for backend, operators in found.items():
        for name, kinds in operators.items():
            for flag, pairs in kinds.items():
                if flag not in ("0", "1"):
                    raise ValueError(f"{backend}, {name}: {flag!r} in place of 0 or 1")
                for size, us in pairs:
                    yield _record(backend, name, flag == "1", size, us)


def _record(backend: str, name: str, quantised: bool, size: object, us: object) -> Record:
    if type(size) is not int or type(us) is not int:
        raise ValueError(f"{backend}, {name}: a size and a time are whole numbers")
    if not 0 <= size <= _MOST_SIZE or not 0 <= us <= _MOST_US:
        raise ValueError(f"{backend}, {name}: [{size}, {us}] is out of range")
    return Record(backend, name, quantised, size, us)
