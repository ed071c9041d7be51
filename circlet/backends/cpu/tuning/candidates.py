"""Makes loaded partitions of one network that differ in what their lowerings choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from circlet.backends.cpu.compile import LoweredPartition
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loaded_code import LoadedCode, loaded_code_of
from circlet.backends.cpu.loader import Library, load_runtime
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.backends.cpu.reuse_index import ReuseIndex
from circlet.backends.cpu.runtime_library import plain_target, runtime_image
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.backends.cpu.tuning.knobs import KnobSettings, workload_of
from circlet.config import Config
from circlet.plan.partition import Partition
from circlet.target.targets import Target


class Candidate(NamedTuple):
    """All native partitions of a network, loaded.

    Attributes:
        partitions: What was compiled.
        executables: Its code.
        workloads: What each step belongs to, as `workload_of` names it; "" for jumps.
        settings: The candidates that were wanted, and the knobs that came up.
        compiled: The partitions as C and plans.
    """

    partitions: tuple[Partition, ...]
    executables: tuple[Executable, ...]
    workloads: tuple[str, ...]
    settings: KnobSettings
    compiled: tuple[LoweredPartition, ...]


class Images:
    """Shared objects; equal units are built once."""

    def __init__(self, config: Config | None = None) -> None:
        self._known: dict[UnitSource, bytes] = {}
        self._config = config

    def built(self, units: Sequence[UnitSource]) -> list[bytes]:
        """What `compile_units` gives."""
        missing = [unit for unit in dict.fromkeys(units) if unit not in self._known]
        if missing:
            self._known.update(
                zip(missing, compile_units(missing, config=self._config), strict=True)
            )
        return [self._known[unit] for unit in units]


class CandidateBuilder:
    """Compiles partitions for a target that this machine runs.

    Attributes:
        plain: The partitions without tuning.
    """

    def __init__(
        self,
        compiler: CpuCompiler,
        partitions: Sequence[Partition],
        target: Target,
        images: Images,
    ) -> None:
        self._compiler, self._target, self._images = compiler, target, images
        self._partitions = tuple(partitions)
        self._runtime = load_runtime(runtime_image(plain_target(target), compiler.config))
        self.plain = self.whole({})
        self._code: LoadedCode = loaded_code_of(self.plain.executables)

    def whole(self, wanted: Mapping[str, str]) -> Candidate:
        """The partitions compiled as they would be for good."""
        settings = KnobSettings(wanted)
        compiled = [self._lowered(part, settings) for part in self._partitions]
        executables = [
            Executable(
                self._runtime,
                part.plan,
                part.constants,
                self._images.built([UnitSource(text, self._target) for text in part.units]),
                part.reuse.to_bytes(),
            )
            for part in compiled
        ]
        return self._candidate(executables, settings, compiled)

    def variant(self, wanted: Mapping[str, str]) -> Candidate:
        """The partitions over kernels and constants that there are; what they lack is added."""
        settings = KnobSettings(wanted)
        compiled: list[LoweredPartition] = []
        for number, part in enumerate(self._partitions):
            done = self._lowered(part, settings, self._code.index(number))
            if done.units:
                images = self._images.built([UnitSource(text, self._target) for text in done.units])
                units = [Library(image, "unit") for image in images]
                self._code = self._code.grown(units, done.reuse)
            compiled.append(done)
        pairs = zip(compiled, self.plain.executables, strict=True)
        executables = [self._code.executable(done, first) for done, first in pairs]
        return self._candidate(executables, settings, compiled)

    def _lowered(
        self, part: Partition, settings: KnobSettings, reuse: ReuseIndex | None = None
    ) -> LoweredPartition:
        return self._compiler.lowered(part, self._target, reuse, settings)

    def _candidate(
        self,
        executables: Sequence[Executable],
        settings: KnobSettings,
        compiled: Sequence[LoweredPartition],
    ) -> Candidate:
        workloads = _workloads(compiled)
        return Candidate(self._partitions, tuple(executables), workloads, settings, tuple(compiled))


def _workloads(compiled: Sequence[LoweredPartition]) -> tuple[str, ...]:
    calls = [call for part in compiled for call in part.calls]
    known = {id(op): workload_of(op) for op in {id(c.op): c.op for c in calls if c}.values()}
    return tuple(known[id(call.op)] if call else "" for call in calls)
