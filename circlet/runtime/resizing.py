"""Sessions for other sizes of a network's inputs: planned anew, over what backends have loaded."""

from __future__ import annotations

import time
from _thread import allocate_lock
from typing import TYPE_CHECKING, cast

from circlet.artifact.cache import Cache
from circlet.backends.base import Executable, PartitionCompiler
from circlet.backends.base import Resizer as BackendResizer
from circlet.backends.registry import find_backend
from circlet.compiler.build import metadata_of
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.forking import renew_in_children
from circlet.formats import load
from circlet.garbage import gc_paused
from circlet.options import Options
from circlet.runtime.artifacts import ArtifactSource
from circlet.runtime.beside import digests_beside
from circlet.runtime.key import artifact_key
from circlet.runtime.loading import Opened, opened_plan
from circlet.runtime.opening import ModelSource, changed, check_same
from circlet.stored import Stored, stored
from circlet.target.targets import parse_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from circlet.runtime.opening import Source


class Resizer:
    """Makes a network ready for other sizes; any number of threads may use one."""

    def __init__(self, source: Source, options: Options, opened: Opened) -> None:
        self._source, self._options = source, options
        self._opened = opened
        self._template = opened.template
        self._resizers: dict[str, BackendResizer] = {}
        self.renew_after_fork()
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Open the lock: what it guards is whole or absent."""
        self._lock = allocate_lock()

    def opened(self, options: Options) -> Opened | None:
        """A loaded plan for the shapes of the options; None where there was never a model.

        Raises:
            FileError: The model's file is not any more what it was.
            CircletError: As `Session`.
        """
        with gc_paused():  # a resize makes only what it keeps
            return self._opened_for(options)

    def _opened_for(self, options: Options) -> Opened | None:
        start = time.perf_counter()
        with self._lock:
            template = self._known_template()
        if template is None:
            return None
        entries = self._opened.metadata["partitions"]
        loaded = frozenset(str(entry["backend"]) for entry in entries)
        planned = plan(template, options, loaded=loaded)
        made = {compiler.name: self._made(planned, compiler) for compiler in planned.compilers}
        pairs = planned.in_order(made)
        metadata = metadata_of(planned, [facts for _, facts in pairs])
        opened = opened_plan(metadata, [code for code, _ in pairs])
        opened.seconds["resize"] = time.perf_counter() - start
        return opened

    def _made(
        self, planned: PlannedModel, compiler: PartitionCompiler
    ) -> list[tuple[Executable, Mapping[str, object]]]:
        parts = planned.partitions_of(compiler)
        if not parts:
            return []
        limits = planned.job.options.limits.with_memory(planned.job.budget.left)
        return list(self._resizer(compiler.name).resized(compiler, parts, limits))

    def _resizer(self, name: str) -> BackendResizer:
        """That of a backend, made when it is first needed."""
        with self._lock:
            if name not in self._resizers:
                entries = self._opened.metadata["partitions"]
                pairs = zip(self._opened.partitions, entries, strict=True)
                loaded = [part.code for part, entry in pairs if entry["backend"] == name]
                target = parse_target(self._opened.target)
                self._resizers[name] = find_backend(name).resizer(loaded, target)
            return self._resizers[name]

    def _check_beside(self, file: Stored) -> None:
        """FileError where files beside a model are not any more what a cached start found."""
        key = self._opened.metadata.get("key")
        if not key:
            return
        cache = Cache()
        beside = digests_beside(file, cache)
        if beside is None or artifact_key(file, self._options, cache, beside) != key:
            raise changed(file)

    def _known_template(self) -> Template | None:
        """The model; None for artifacts, which hold none."""
        if self._template is None and isinstance(self._source, ModelSource):
            self._template = Template.of(self._source.make(), self._options, was_checked=True)
        elif self._template is None and not isinstance(self._source, ArtifactSource):
            file = stored(cast(Stored, self._source))  # a `Model` had a template from the start
            check_same(file, self._opened.model)
            model = load(file, self._options.limits)
            if "external_files" in model.extra:
                self._check_beside(file)
            self._template = Template.of(model, self._options, was_checked=True)
        return self._template
