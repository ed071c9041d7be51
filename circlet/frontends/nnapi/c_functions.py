"""The functions of NeuralNetworks.h over the objects, for a C library that forwards to them.

Each is an attribute of this module by its name in C, and an entry of `FUNCTIONS`. Arguments are
those of C as integers: handles in place of pointers to objects, and addresses. Results are those of
C; nothing is ever raised, and `last_error` says why a call was refused. As in C, an address must be
one. docs/nnapi-c.md says what becomes of each function of the header.
"""

from __future__ import annotations

from collections.abc import Callable

from circlet.frontends.nnapi import c_building, c_running  # noqa: F401  fill the table
from circlet.frontends.nnapi.c_calls import FUNCTIONS, last_error

__all__ = ["FUNCTIONS", "last_error"]


def __getattr__(name: str) -> Callable[..., int | None]:
    """A function by its name in C."""
    if name not in FUNCTIONS:
        raise AttributeError(f"there is no function {name!r}")
    return FUNCTIONS[name]
