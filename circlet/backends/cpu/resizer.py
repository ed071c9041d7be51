"""Partitions for other sizes of a network's inputs, over the code and weights that are loaded.

Sizes live in plans, not in code: a resize makes plans whose kernels are those that are loaded and
whose packed weights are those that are mapped. A kernel is compiled only where no loaded one
serves, as a unit of its own, and serves from then on.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Mapping, Sequence
from typing import cast

from circlet.artifact.cache import Cache, cache_key
from circlet.artifact.file import PartitionCode, TargetCode, open_artifact
from circlet.artifact.writer import artifact_bytes
from circlet.backends import base
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loaded_code import LoadedCode, loaded_code_of
from circlet.backends.cpu.loader import Library
from circlet.backends.cpu.partition_compiler import CpuCompiler, facts_of
from circlet.backends.cpu.sized import SizedExecutable, plain_code, with_sizes
from circlet.backends.cpu.toolchain import UnitSource, compile_units, compiler_identity
from circlet.config import Config
from circlet.forking import renew_in_children
from circlet.limits import Limits
from circlet.plan.partition import Partition
from circlet.target.targets import Target


class CpuResizer:
    """Remembers what is loaded for a network, units of later sizes included."""

    def __init__(self, loaded: Sequence[Executable | SizedExecutable], target: Target) -> None:
        self._first = [plain_code(code) for code in loaded]
        self._target = target
        self._code: LoadedCode | None = None
        self.renew_after_fork()
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Open the lock: what it guards is whole or absent."""
        self._lock = allocate_lock()

    def resized(
        self, compiler: base.PartitionCompiler, partitions: Sequence[Partition], limits: Limits
    ) -> list[tuple[base.Executable, Mapping[str, object]]]:
        """Executables over loaded code, and facts; raises as `CpuCompiler.compile`.

        A network whose sizes split it into more partitions than were loaded uses the kernels of
        all, and the runtime library of the first.
        """
        own = cast(CpuCompiler, compiler)
        with self._lock:
            code = self._code = self._code or loaded_code_of(self._first)
        compiled = []
        for number, part in enumerate(partitions):
            compiled.append(own.lowered(part, self._target, code.index(number)))
            own.check_kernels(compiled[-1])
            if compiled[-1].units:
                units = self._built(compiled[-1].units, own.config)
                code = code.grown(units, compiled[-1].reuse)
        with self._lock:
            if len(self._code.units) < len(code.units):
                self._code = code
        firsts = [*self._first, *[self._first[0]] * len(compiled)]
        return [
            (with_sizes(code.executable(part, first), part.sizes), facts_of(part))
            for part, first in zip(compiled, firsts, strict=False)
        ]

    def _built(self, texts: Sequence[str], config: Config) -> list[Library]:
        """Units that were missing, compiled and loaded; from the cache where that is used."""

        def build() -> bytes:
            images = compile_units(
                [UnitSource(text, self._target) for text in texts], config=config
            )
            part = PartitionCode("cpu", b"", {"units": tuple(images)})
            return artifact_bytes({"key": key}, [TargetCode(str(self._target), (part,), {})])

        key = cache_key(str(self._target), compiler_identity(), *texts)
        if config.cache_bytes:
            artifact = Cache(config).load(key, build).artifact
        else:
            artifact = open_artifact(build())
        return [Library(u, "unit") for u in artifact.code(0).partitions[0].sections["units"]]
