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

from circlet.backends.cpu.artifact import PartitionCode, TargetCode, open_artifact
from circlet.backends.cpu.artifact_writer import artifact_bytes
from circlet.backends.cpu.cache import Cache, cache_key
from circlet.backends.cpu.compile import CompiledPartition
from circlet.backends.cpu.loader import Executable, Library
from circlet.backends.cpu.stock import NO_STOCK, Stock
from circlet.backends.cpu.targets import parse_target, parse_targets
from circlet.backends.cpu.toolchain import UnitSource, compile_units, compiler_identity
from circlet.collector import collector_at_rest
from circlet.formats import load
from circlet.runtime.build import backends_of, compile_native, metadata_of, numpy_code
from circlet.runtime.interface import BoundPartition
from circlet.runtime.loading import NativePartition, Opened, load_code, opened_plan
from circlet.runtime.options import OpenOptions, Source, artifact_key
from circlet.runtime.planning import PlannedModel, is_native, plan
from circlet.runtime.template import Template


@dataclass(frozen=True)
class Shelf:
    """What is loaded: units, their kernels, and for each native partition its constants."""

    units: tuple[Library, ...]
    stocks: tuple[Stock, ...]

    def stock(self, number: int) -> Stock:
        """What native partition `number` may use: every kernel, and constants of its own."""
        if number < len(self.stocks):
            return self.stocks[number]
        return replace(NO_STOCK, kernels=self.stocks[0].kernels, units=len(self.units))

    def grown(self, units: Sequence[Library], stock: Stock) -> Shelf:
        """With more units, whose kernels `stock` knows."""
        known = (*self.units, *units)
        kernels = stock.kernels
        stocks = (replace(own, kernels=kernels, units=len(known)) for own in self.stocks)
        return Shelf(known, tuple(stocks))


class Resizer:
    """Makes a network ready for other sizes; any number of threads may use one."""

    def __init__(self, source: Source, options: OpenOptions, opened: Opened) -> None:
        self._source, self._options, self._key = source, options, opened.key
        parts = [part.code for part in opened.partitions]
        self._native = [part for part in parts if isinstance(part, NativePartition)]
        self._target = parse_target(opened.target)
        self._template = opened.template
        self._shelf: Shelf | None = None
        self._lock = threading.Lock()

    def opened(self, options: OpenOptions) -> Opened | None:
        """A loaded plan for the shapes of the options; None where all must be compiled anew.

        Raises:
            CircletError: As `Session`.
        """
        with collector_at_rest():  # a resize makes only what it keeps
            return self._opened(options)

    def _opened(self, options: OpenOptions) -> Opened | None:
        start = time.perf_counter()
        with self._lock:
            template, shelf = self._known_template(), self._known_shelf()
        if template is None or shelf is None:
            return None
        targets = parse_targets(options.target)
        backends = backends_of(targets, options, compiles=False)
        planned = plan(template.copy(), backends, options, resized=True)
        compiled: list[CompiledPartition] = []
        for number, part in enumerate(planned.native):
            stock = shelf.stock(number)
            compiled.append(compile_native(part, self._target, options, template, planned, stock))
            if compiled[-1].units:
                shelf = shelf.grown(self._built(compiled[-1].units), compiled[-1].stock)
        with self._lock:
            if self._shelf is None or len(self._shelf.units) < len(shelf.units):
                self._shelf = shelf
        codes = self._loaded(planned, compiled, shelf)
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

    def _known_shelf(self) -> Shelf | None:
        if self._shelf is None and self._native:
            self._shelf = shelf_of(self._native)
        return self._shelf

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
        self, planned: PlannedModel, compiled: Sequence[CompiledPartition], shelf: Shelf
    ) -> list[BoundPartition]:
        first, native = self._native[0].executable, iter(enumerate(compiled))
        codes: list[BoundPartition] = []
        for part in planned.partitions:
            if not is_native(part):
                entry = {"backend": part.backend}
                codes.append(load_code(entry, numpy_code(part), None, self._options.limits))
                continue
            number, code = next(native)
            units = shelf.units[: code.stock.units]
            constants = (
                self._native[number].executable.constants if code.stock.constants_bytes else b""
            )
            executable = Executable(first.runtime, code.plan, constants, units)
            codes.append(NativePartition(executable))
        return codes


def shelf_of(partitions: Sequence[NativePartition]) -> Shelf:
    """What loaded native partitions leave for the same network at other sizes."""
    stocks = [Stock.from_bytes(part.stock) for part in partitions]
    units: list[Library] = []
    kernels: dict[str, tuple[int, int]] = {}
    for part, stock in zip(partitions, stocks, strict=True):
        moved = {key: (unit + len(units), index) for key, (unit, index) in stock.kernels.items()}
        kernels = moved | kernels
        units += part.executable.units
    shared = (replace(stock, kernels=kernels, units=len(units)) for stock in stocks)
    return Shelf(tuple(units), tuple(shared))
