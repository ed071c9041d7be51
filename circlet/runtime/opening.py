"""Opens what a session is given: an artifact, or a model by way of the cache.

The path of a cached start is short on purpose: it imports neither the readers nor the compiler.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.backends.cpu.artifact import MAGIC, Artifact, PartitionCode, is_artifact, open_artifact
from circlet.backends.cpu.cache import Cache, cache_key
from circlet.backends.cpu.host import host_architecture, host_model, host_words
from circlet.backends.cpu.loader import Binding, Executable, Runtime, load_runtime
from circlet.errors import ArtifactError, FileError, InputError, PlacementError, check_type
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.record import Record
from circlet.runtime.executor import LoadedPartition
from circlet.runtime.user_codes import may_use_user_codes
from circlet.runtime.values import Value

if TYPE_CHECKING:
    from circlet.runtime.interface import BoundPartition, Runner
    from circlet.runtime.template import Template

Source = str | os.PathLike[str] | bytes | memoryview
_NO_COMPILER = "no compiler"
_COMPILED_IN = ("backends", "target", "shapes", "signature", "tune_seconds")
DEFAULT_LEVEL = "O2"
DEFAULT_PRECISION = "f32"
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class OpenOptions(Record):
    """How a source is turned into a plan; what `Session` was asked for.

    `level` is that of optimisation; `shapes` names inputs whose sizes are not those of the file;
    `limits` bound what an untrusted network may use; `signature` names the entry point, "" for the
    first graph; `tune_seconds` is the time for measuring kernels, 0 for none; `precision` is what
    operands of float products may be rounded to.
    """

    backends: tuple[str, ...] = ("cpu", "reference")
    strict: bool = False
    target: str = "native"
    level: str = DEFAULT_LEVEL
    cache: bool = True
    shapes: Shapes = ()
    limits: Limits = DEFAULT_LIMITS
    signature: str = ""
    tune_seconds: float = 0.0
    precision: str = DEFAULT_PRECISION


class Opened(Record):
    """A loaded plan.

    Attributes:
        partitions: Loaded code, in order.
        values: What crosses partitions; `inputs` and `outputs` are positions in it.
        metadata: The artifact's metadata.
        seconds: How long "load" took, and "compile" or "cache" where the source was a model, or
            "resize".
        target: What the loaded code is for.
        key: The cache's name of the artifact, "" where the cache was not asked.
        template: The model, where it was read to compile it.
    """

    partitions: list[LoadedPartition]
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    metadata: dict[str, Any]
    seconds: dict[str, float]
    target: str = ""
    key: str = ""
    template: Template | None = None

    @property
    def is_native(self) -> bool:
        """Whether any of it is compiled code."""
        return any(isinstance(part.code, NativePartition) for part in self.partitions)

    @property
    def placement(self) -> list[dict[str, object]]:
        """The placement table as records."""
        keys = ("kind", "source", "backend", "refused")
        return [dict(zip(keys, row, strict=True)) for row in self.metadata["placement"]]


def open_source(source: Source, options: OpenOptions) -> Opened:
    """Load an artifact, or the artifact of a model: from the cache, or compiled now."""
    if holds_artifact(source):
        _check_unchanged(options)
        start = time.perf_counter()
        opened = load_artifact(open_artifact(_plain(source)), options.limits)
        opened.seconds["load"] = time.perf_counter() - start
        if options.strict:
            _check_strict(opened)
        return opened
    return _open_model(source, options)


def _check_unchanged(options: OpenOptions) -> None:
    """InputError where options ask for what only compiling could give."""
    asked = [name for name in _COMPILED_IN if getattr(options, name) != getattr(OpenOptions, name)]
    if asked:
        raise InputError(
            "an artifact keeps what it was compiled for",
            where=", ".join(asked),
            why="its sizes, entry point, backends and kernels are fixed",
            fix="open the model that it was made of, or compile that anew with these options",
        )


def _check_strict(opened: Opened) -> None:
    rows = opened.metadata["placement"]
    moved = [(source, kind, refused[0][1]) for kind, source, _, refused in rows if refused]
    if moved:
        first = next(refused[0][0] for *_, refused in rows if refused)
        raise PlacementError.moved(first, moved)


def check_made_for(opened: Opened, asked: Mapping[str, str | None]) -> None:
    """InputError where an artifact was compiled for another level or precision than asked for."""
    for name, wanted in asked.items():
        made = opened.metadata.get(name, wanted)
        if wanted not in (None, made):
            raise InputError(
                f"an artifact keeps the {name} that it was compiled for",
                where=name,
                why=f"{wanted} was asked for, it was made for {made}",
                fix=f"compile the model with {name} {wanted}",
            )


def _open_model(source: Source, options: OpenOptions) -> Opened:
    templates: list[Template] = []

    def compile_now() -> bytes:
        from circlet.runtime.build import compile_template
        from circlet.runtime.template import Template

        templates.append(Template.read(source, options))
        return compile_template(templates[0], options)[0]

    start = time.perf_counter()
    key = artifact_key(source, options)
    if key:
        found = Cache().load(key, compile_now)
        artifact, hit = found.artifact, found.hit
    else:
        artifact, hit = open_artifact(compile_now()), False
    middle = time.perf_counter()
    opened = load_artifact(artifact, options.limits)
    opened.seconds["cache" if hit else "compile"] = middle - start
    opened.seconds["load"] = time.perf_counter() - middle
    if hit and not opened.is_native and _compiler_identity(options) == _NO_COMPILER:
        _warn_of_numpy()
    return opened._replace(key=key, template=templates[0] if templates else None)


def _has_user_ops(source: Source) -> bool:
    try:
        return may_use_user_codes(source)
    except OSError as error:
        raise FileError.unreadable("the model file", source, error) from error


def artifact_key(source: Source, options: OpenOptions) -> str:
    """The cache's name for an artifact: the model's bytes and everything that shapes the code.

    It is "" where the cache is not to be used.
    """
    if not options.cache or _has_user_ops(source):
        return ""
    if isinstance(source, (str, os.PathLike)):
        try:
            model: str | bytes | memoryview = Cache().file_digest(source)
        except OSError as error:
            raise FileError.unreadable("the model file", source, error) from error
    else:
        model = source
    targets = _target_identity(options.target)
    limits = options.limits._replace(run_seconds=None)
    entry = (options.signature, options.shapes)
    plan = repr((options.backends, options.strict, options.level, entry, limits, options.precision))
    if options.tune_seconds:
        plan += repr((host_model(), options.tune_seconds))
    return cache_key(model, targets, plan, _compiler_identity(options))


def _target_identity(text: str) -> str:
    """What code is for; this machine by its own words, for whose meanings no table is loaded."""
    if text == "native":
        return " ".join((host_architecture(), *sorted(host_words())))
    from circlet.backends.cpu.targets import parse_targets

    return ",".join(map(str, parse_targets(text)))


def _compiler_identity(options: OpenOptions) -> str:
    if "cpu" not in options.backends:
        return "none asked for"
    from circlet.backends.cpu.compiler import compiler_identity
    from circlet.errors import CompilerMissingError

    try:
        return compiler_identity()
    except CompilerMissingError:
        return _NO_COMPILER


def _warn_of_numpy() -> None:
    """Say at every start what the first one said: a compiler would make this faster."""
    import logging

    logging.getLogger(__name__).warning(
        "no C compiler was found, numpy runs what was cached: pip install 'circlet[compile]'"
    )


def holds_artifact(source: Source) -> bool:
    """Whether a source starts as an artifact does.

    Raises:
        FileError: It cannot be read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return is_artifact(bytes(source[: len(MAGIC)]))
    check_type(source, str | os.PathLike, "source", "the path or the bytes of a network")
    try:
        with open(source, "rb") as file:
            return is_artifact(file.read(len(MAGIC)))
    except OSError as error:
        raise FileError.unreadable("the model file", source, error) from error


def _plain(source: Source) -> str | os.PathLike[str] | bytes:
    return source if isinstance(source, (str, os.PathLike)) else bytes(source)


def load_artifact(artifact: Artifact, limits: Limits) -> Opened:
    """The plan of an artifact for this machine, its code loaded."""
    code = artifact.select()
    facts = artifact.metadata
    try:
        runtime = load_runtime(code.runtime) if len(code.runtime) else None
        pairs = zip(facts["partitions"], code.partitions, strict=True)
        opened = opened_plan(facts, [load_code(*pair, runtime, limits) for pair in pairs])
        return opened._replace(target=str(code.target))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=artifact.name, why=f"metadata: {error!r}"
        ) from error


def opened_plan(facts: dict[str, Any], codes: Sequence[BoundPartition]) -> Opened:
    """A plan of loaded partitions, as its metadata describes it."""
    values = [Value.from_json(fields) for fields in facts["values"]]
    dynamic = {index for index, value in enumerate(values) if value.is_dynamic}
    partitions = [
        LoadedPartition(
            code,
            tuple(entry["inputs"]),
            tuple(entry["outputs"]),
            tuple(value for value in entry["outputs"] if value in dynamic),
        )
        for entry, code in zip(facts["partitions"], codes, strict=True)
    ]
    return Opened(partitions, values, facts["inputs"], facts["outputs"], facts, {})


def load_code(
    entry: dict[str, Any], part: PartitionCode, runtime: Runtime | None, limits: Limits
) -> BoundPartition:
    """What runs a partition of the plan's metadata."""
    if entry["backend"] == "cpu" and runtime is not None:
        executable = Executable(runtime, part.plan, part.constants, part.units)
        return NativePartition(executable, part.stock)
    from circlet.runtime.fallback import ReferencePartition

    return ReferencePartition(part.constants, limits)


class NativePartition(Record):
    """Compiled code that can be bound to buffers, and what of it serves other sizes."""

    executable: Executable
    stock: bytes | memoryview = b""

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """Give the plan an arena and these buffers."""
        return Binding(self.executable, inputs, outputs, threads)
