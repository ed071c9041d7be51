"""Which machines may share a front: those of one class, by what times and memory depend on."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import lru_cache

from circlet import __version__
from circlet.artifact.digest import digest
from circlet.backends.registry import backend_names, find_backend
from circlet.costs.machine import machine_facts
from circlet.errors import CircletError
from circlet.struct import Struct

_DIGITS = 12


class Machine(Struct):
    """One machine, as it tells a fleet of itself.

    Attributes:
        host: Its name in its network.
        facts: What times and memory depend on; machines whose facts are equal are of one class.
    """

    host: str
    facts: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """The name of the class of machines that this one is of: digits of a hash of its facts."""
        text = "\n".join(f"{key}: {value}" for key, value in sorted(self.facts.items()))
        return digest(text.encode()).hex()[:_DIGITS]

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends that work on it."""
        prefix = "backend "
        return tuple(key.removeprefix(prefix) for key in self.facts if key.startswith(prefix))


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """The machine that this process runs on, with the cores that it may use."""
    facts = {
        **{name: str(fact) for name, fact in machine_facts().items()},
        "circlet": __version__,
    }
    for name in backend_names():
        try:
            facts[f"backend {name}"] = find_backend(name).toolchain()
        except CircletError:  # what compiles for it is not here, so it takes part in no search
            continue
    return Machine(socket.gethostname(), facts)
