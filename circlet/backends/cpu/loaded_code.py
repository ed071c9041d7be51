"""Code that is loaded, as far as other plans of the same network can run over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loader import Library
from circlet.backends.cpu.reuse_index import NO_REUSE, ReuseIndex


@dataclass(frozen=True)
class LoadedCode:
    """Units, their kernels, and for each native partition its constants."""

    units: tuple[Library, ...]
    indexes: tuple[ReuseIndex, ...]

    def index(self, number: int) -> ReuseIndex:
        """What native partition `number` may use: every kernel, and constants of its own."""
        if number < len(self.indexes):
            return self.indexes[number]
        return replace(NO_REUSE, kernels=self.indexes[0].kernels, units=len(self.units))

    def grown(self, units: Sequence[Library], index: ReuseIndex) -> LoadedCode:
        """With more units, whose kernels `index` knows."""
        known = (*self.units, *units)
        kernels = index.kernels
        indexes = (replace(own, kernels=kernels, units=len(known)) for own in self.indexes)
        return LoadedCode(known, tuple(indexes))

    def executable(self, compiled: LoweredPartition, first: Executable) -> Executable:
        """A plan over these units and the constants of the partition that was loaded first."""
        index = compiled.reuse
        constants = first.constants if index.constants_bytes else b""
        return Executable(
            first.runtime,
            compiled.plan,
            constants,
            self.units[: index.units],
            values=compiled.values,
        )


def loaded_code_of(executables: Sequence[Executable]) -> LoadedCode:
    """What the loaded partitions of a network leave for other plans of it."""
    indexes = [ReuseIndex.from_bytes(executable.reuse) for executable in executables]
    units: list[Library] = []
    kernels: dict[str, tuple[int, int]] = {}
    for executable, own in zip(executables, indexes, strict=True):
        moved = {key: (unit + len(units), index) for key, (unit, index) in own.kernels.items()}
        kernels = moved | kernels
        units += executable.units
    shared = (replace(own, kernels=kernels, units=len(units)) for own in indexes)
    return LoadedCode(tuple(units), tuple(shared))
