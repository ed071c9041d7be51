"""What runners offer whose values lie in memory of their own: copies there and back as steps.

A backend whose engine, or whose device, keeps values where the host's arrays are not lets the
executor do the copying, which then does only what is needed: a value that two partitions read is
brought once where they can share it, and one that goes from a partition to another of the same
memory is not brought back in between. A runner without these methods copies in `run`, if at all.
"""

from __future__ import annotations

from math import isfinite
from typing import Protocol, runtime_checkable

from circlet.backends.base import BackendInfo
from circlet.plan.transfers import Home


@runtime_checkable
class OwnMemory(Protocol):
    """A runner whose `run` computes in memory of its own, on what was uploaded there."""

    @property
    def memory(self) -> str:
        """The kind of memory; runners of one kind may share what lies in it."""
        ...

    def upload(self, index: int) -> None:
        """Copy input `index` from the array that it is bound to."""
        ...

    def download(self, index: int) -> None:
        """Copy output `index` to the array that it is bound to."""
        ...

    def input_memory(self, index: int) -> object:
        """Where input `index` lies, for `share_input` of another runner; None for no sharing."""
        ...

    def output_memory(self, index: int) -> object:
        """Where output `index` lies, for `share_input` of another runner; None for no sharing."""
        ...

    def share_input(self, index: int, memory: object) -> bool:
        """Read input `index` from now on where another runner of this kind of memory has it.

        It is not uploaded then. False where that cannot be done, and nothing has changed.
        """
        ...


def home_of(info: BackendInfo) -> Home:
    """Where the values of a backend's partitions lie."""
    return Home(info.memory, isfinite(info.transfer_bytes_per_ns))
