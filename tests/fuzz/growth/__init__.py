"""Makers of small files that ask for much: each takes a source of randomness and gives a file."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.growth import constants, counts, names, nesting, sharing

MAKERS: dict[str, Callable[[Random], bytes]] = {
    "nesting": nesting.make,
    "sharing": sharing.make,
    "constants": constants.make,
    "counts": counts.make,
    "names": names.make,
}
