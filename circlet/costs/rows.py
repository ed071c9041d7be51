"""Rows of the database of costs, and the checks that what is read holds sound numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from circlet.costs.signature import Features, Signature

ALONE, WITHIN = "alone", "within"
_MOST_NS = 1e15
T = TypeVar("T")
Read = Sequence[object]


class Context(NamedTuple):
    """What rows hold for."""

    machine: str
    versions: str
    backend: str
    options: str
    threads: int


class Row(NamedTuple):
    """An operator that was measured.

    Attributes:
        way: `ALONE`, as a network of its own, or `WITHIN` a network.
        ns, low, high: Nanoseconds, and the interval of nine in ten runs.
        held: Bytes that it holds beyond activations.
    """

    signature: Signature
    way: str
    ns: float
    low: float
    high: float
    held: int


class Whole(NamedTuple):
    """A network that was measured with a backend as the first choice.

    Attributes:
        network: The same for equal operators in the same order.
        ns: Nanoseconds of this backend's partitions, with what lies between all in equal parts.
        total_ns, low, high: Those of a run, and the interval of most runs.
        partitions: How many partitions of this backend there are.
        members: How many operators of each signature key run on it.
    """

    network: str
    ns: float
    total_ns: float
    low: float
    high: float
    partitions: int
    members: tuple[tuple[str, int], ...]


def sound(read: Callable[[Read], T], rows: Iterable[Read]) -> Iterator[T]:
    """Rows that hold what they should; a file may hold anything."""
    for row in rows:
        with suppress(ValueError, TypeError):
            yield read(row)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value < _MOST_NS:
        raise ValueError(value)
    return float(value)


def numbers(row: Read) -> tuple[float, ...]:
    """A row of numbers of 0 or more; ValueError or TypeError for any other."""
    return tuple(map(_number, row))


def operator_row(row: Read) -> Row:
    """An operator; ValueError or TypeError where a number is none."""
    features, size = Features(*numbers(row[4:8])), int(_number(row[8]))
    signature = Signature(str(row[0]), str(row[1]), str(row[2]), str(row[3]), features, size)
    ns, low, high, held = numbers(row[10:14])
    if not low <= ns <= high or row[9] not in (ALONE, WITHIN):
        raise ValueError(row)
    return Row(signature, str(row[9]), ns, low, high, int(held))


def network_row(row: Read) -> Whole:
    """A network without its members; ValueError or TypeError where a number is none."""
    ns, total, low, high, partitions = numbers(row[1:])
    return Whole(str(row[0]), ns, total, low, high, int(partitions), ())


def imported_row(row: Read) -> tuple[str, bool, int, int]:
    """What another tool measured; ValueError or TypeError where a number is none."""
    quantised, size, us = numbers(row[1:])
    return str(row[0]), bool(quantised), int(size), int(us)
