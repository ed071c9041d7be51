"""Makes loaded plans of one network that differ in what their lowerings choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from circlet.artifact.file import open_artifact
from circlet.backends.base import BoundPartition
from circlet.backends.cpu.compile import CompiledPartition
from circlet.backends.cpu.loader import Executable, Library
from circlet.backends.cpu.reuse_index import ReuseIndex
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.backends.cpu.tuning.choices import Choices, subject_of
from circlet.compiler.build import artifact_of, compile_native, metadata_of, numpy_code
from circlet.compiler.planning import PlannedModel, is_native
from circlet.compiler.template import Template
from circlet.options import OpenOptions
from circlet.plan.partition import Partition
from circlet.runtime.loading import NativePartition, Opened, load_artifact, load_code, opened_plan
from circlet.runtime.resizing import LoadedCode, loaded_code_of
from circlet.target.targets import Target


class Plan(NamedTuple):
    """A loaded plan.

    Attributes:
        subjects: What each native step belongs to, as `subject_of` names it; "" for jumps.
        choices: The answers that were wanted, and the questions that came up.
        compiled: The native partitions.
    """

    opened: Opened
    subjects: tuple[str, ...]
    choices: Choices
    compiled: tuple[CompiledPartition, ...]


class Images:
    """Shared objects; equal units are built once."""

    def __init__(self) -> None:
        self._known: dict[UnitSource, bytes] = {}

    def built(self, units: Sequence[UnitSource]) -> list[bytes]:
        """What `compile_units` gives."""
        missing = [unit for unit in dict.fromkeys(units) if unit not in self._known]
        if missing:
            self._known.update(zip(missing, compile_units(missing), strict=True))
        return [self._known[unit] for unit in units]


class CandidateBuilder:
    """Compiles a planned network for a target that this machine runs.

    Attributes:
        plain: The network without tuning.
    """

    def __init__(
        self,
        planned: PlannedModel,
        target: Target,
        template: Template,
        options: OpenOptions,
        images: Images,
    ) -> None:
        self._planned, self._target = planned, target
        self._template, self._options, self._images = template, options, images
        self.plain = self.whole({})
        codes = (part.code for part in self.plain.opened.partitions)
        self._native = [code for code in codes if isinstance(code, NativePartition)]
        self._loaded_code: LoadedCode | None = (
            loaded_code_of(self._native) if self._native else None
        )

    def whole(self, wanted: Mapping[str, str]) -> Plan:
        """The network compiled as it would be for good."""
        choices = Choices(wanted)
        compiled = [self._lowered(part, choices) for part in self._planned.native]
        data = artifact_of(self._planned, {self._target: compiled}, build=self._images.built)
        opened = load_artifact(open_artifact(data), self._options.limits)
        return Plan(opened, _subjects(compiled), choices, tuple(compiled))

    def variant(self, wanted: Mapping[str, str]) -> Plan:
        """The network over kernels and constants that there are; what it lacks is added."""
        choices = Choices(wanted)
        compiled: list[CompiledPartition] = []
        loaded_code = self._loaded_code
        for number, part in enumerate(self._planned.native):
            assert loaded_code is not None
            done = self._lowered(part, choices, loaded_code.reuse(number))
            if done.units:
                images = self._images.built([UnitSource(text, self._target) for text in done.units])
                loaded_code = loaded_code.grown(
                    [Library(image, "unit") for image in images], done.reuse
                )
            compiled.append(done)
        self._loaded_code = loaded_code
        opened = opened_plan(metadata_of(self._planned, compiled), self._loaded(compiled))
        return Plan(opened, _subjects(compiled), choices, tuple(compiled))

    def _lowered(
        self, part: Partition, choices: Choices, reuse: ReuseIndex | None = None
    ) -> CompiledPartition:
        return compile_native(
            part, self._target, self._options, self._template, self._planned, reuse, choices
        )

    def _loaded(self, compiled: Sequence[CompiledPartition]) -> list[BoundPartition]:
        native = iter(zip(compiled, self._native, strict=True))
        return [
            self._executable(*next(native)) if is_native(part) else self._in_numpy(part)
            for part in self._planned.partitions
        ]

    def _executable(self, done: CompiledPartition, plain: NativePartition) -> NativePartition:
        assert self._loaded_code is not None
        executable = Executable(
            plain.executable.runtime,
            done.plan,
            plain.executable.constants if done.reuse.constants_bytes else b"",
            self._loaded_code.units[: done.reuse.units],
        )
        return NativePartition(executable)

    def _in_numpy(self, part: Partition) -> BoundPartition:
        entry = {"backend": part.backend}
        return load_code(entry, numpy_code(part), None, self._options.limits)


def _subjects(compiled: Sequence[CompiledPartition]) -> tuple[str, ...]:
    calls = [call for part in compiled for call in part.calls]
    known = {id(op): subject_of(op) for op in {id(c.op): c.op for c in calls if c}.values()}
    return tuple(known[id(call.op)] if call else "" for call in calls)
