"""Sessions for other sizes of a network's inputs, over the code and the weights of the first.

Shapes live in plans, not in code. For other sizes the network is planned anew: its kernels are
those that are loaded, its packed weights those that are mapped, and a kernel is compiled only where
no loaded one serves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from circlet.artifact.cache import Cache, cache_key
from circlet.artifact.file import PartitionCode, TargetCode, open_artifact
from circlet.artifact.writer import artifact_bytes
from circlet.backends.base import BoundPartition
from circlet.backends.cpu.compile import CompiledPartition
from circlet.backends.cpu.loader import Executable, Library
from circlet.backends.cpu.reuse_index import NO_REUSE, ReuseIndex
from circlet.backends.cpu.toolchain import UnitSource, compile_units, compiler_identity
from circlet.compiler.build import backends_of, compile_native, metadata_of, numpy_code
from circlet.compiler.planning import PlannedModel, is_native, plan
from circlet.compiler.template import Template
from circlet.formats import load
from circlet.garbage import gc_paused
from circlet.options import OpenOptions, Source, artifact_key
from circlet.runtime.loading import NativePartition, Opened, load_code, opened_plan
from circlet.target.targets import parse_target, parse_targets


@dataclass(frozen=True)
class LoadedCode:
    """What is loaded: units, their kernels, and for each native partition its constants."""

    units: tuple[Library, ...]
    indexes: tuple[ReuseIndex, ...]

    def reuse(self, number: int) -> ReuseIndex:
        """What native partition `number` may use: every kernel, and constants of its own."""
        if number < len(self.indexes):
            return self.indexes[number]
        return replace(NO_REUSE, kernels=self.indexes[0].kernels, units=len(self.units))

    def grown(self, units: Sequence[Library], reuse: ReuseIndex) -> LoadedCode:
        """With more units, whose kernels `reuse` knows."""
        known = (*self.units, *units)
        kernels = reuse.kernels
        indexes = (replace(own, kernels=kernels, units=len(known)) for own in self.indexes)
        return LoadedCode(known, tuple(indexes))


class Resizer:
    """Makes a network ready for other sizes; any number of threads may use one."""

    def __init__(self, source: Source, options: OpenOptions, opened: Opened) -> None:
        self._source, self._options, self._key = source, options, opened.key
        parts = [part.code for part in opened.partitions]
        self._native = [part for part in parts if isinstance(part, NativePartition)]
        self._target = parse_target(opened.target)
        self._template = opened.template
        self._loaded_code: LoadedCode | None = None
        self._lock = threading.Lock()

    def opened(self, options: OpenOptions) -> Opened | None:
        """A loaded plan for the shapes of the options; None where all must be compiled anew.

        Raises:
            CircletError: As `Session`.
        """
        with gc_paused():  # a resize makes only what it keeps
            return self._opened(options)

    def _opened(self, options: OpenOptions) -> Opened | None:
        start = time.perf_counter()
        with self._lock:
            template, loaded_code = self._known_template(), self._known_code()
        if template is None or loaded_code is None:
            return None
        targets = parse_targets(options.target)
        backends = backends_of(targets, options, compiles=False)
        planned = plan(template.copy(), backends, options, resized=True)
        compiled: list[CompiledPartition] = []
        for number, part in enumerate(planned.native):
            reuse = loaded_code.reuse(number)
            compiled.append(compile_native(part, self._target, options, template, planned, reuse))
            if compiled[-1].units:
                loaded_code = loaded_code.grown(self._built(compiled[-1].units), compiled[-1].reuse)
        with self._lock:
            if self._loaded_code is None or len(self._loaded_code.units) < len(loaded_code.units):
                self._loaded_code = loaded_code
        codes = self._loaded(planned, compiled, loaded_code)
        opened = opened_plan(metadata_of(planned, compiled), codes)
        opened.seconds["resize"] = time.perf_counter() - start
        return opened

    def _known_template(self) -> Template | None:
        """The model; None where its file is not that of the first session any more."""
        if self._template is None and self._key:
            model = load(self._source, self._options.limits)
            if self._key == artifact_key(self._source, self._options):
                self._template = Template.of(model, self._options, was_checked=True)
        return self._template

    def _known_code(self) -> LoadedCode | None:
        if self._loaded_code is None and self._native:
            self._loaded_code = loaded_code_of(self._native)
        return self._loaded_code

    def _built(self, texts: Sequence[str]) -> list[Library]:
        """Units that were missing, compiled and loaded."""

        def build() -> bytes:
            images = compile_units([UnitSource(text, self._target) for text in texts])
            part = PartitionCode(b"", b"", tuple(images))
            return artifact_bytes({}, [TargetCode(str(self._target), b"", (part,), {})])

        if self._key:
            key = cache_key(str(self._target), compiler_identity(), *texts)
            artifact = Cache().load(key, build).artifact
        else:
            artifact = open_artifact(build())
        return [Library(image, "unit") for image in artifact.code(0).partitions[0].units]

    def _loaded(
        self, planned: PlannedModel, compiled: Sequence[CompiledPartition], loaded_code: LoadedCode
    ) -> list[BoundPartition]:
        first, native = self._native[0].executable, iter(enumerate(compiled))
        codes: list[BoundPartition] = []
        for part in planned.partitions:
            if not is_native(part):
                entry = {"backend": part.backend}
                codes.append(load_code(entry, numpy_code(part), None, self._options.limits))
                continue
            number, code = next(native)
            units = loaded_code.units[: code.reuse.units]
            constants = (
                self._native[number].executable.constants if code.reuse.constants_bytes else b""
            )
            executable = Executable(first.runtime, code.plan, constants, units)
            codes.append(NativePartition(executable))
        return codes


def loaded_code_of(partitions: Sequence[NativePartition]) -> LoadedCode:
    """What loaded native partitions leave for the same network at other sizes."""
    indexes = [ReuseIndex.from_bytes(part.reuse) for part in partitions]
    units: list[Library] = []
    kernels: dict[str, tuple[int, int]] = {}
    for part, reuse in zip(partitions, indexes, strict=True):
        moved = {key: (unit + len(units), index) for key, (unit, index) in reuse.kernels.items()}
        kernels = moved | kernels
        units += part.executable.units
    shared = (replace(reuse, kernels=kernels, units=len(units)) for reuse in indexes)
    return LoadedCode(tuple(units), tuple(shared))
