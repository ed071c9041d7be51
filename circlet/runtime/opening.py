"""Opens what a session is given: an artifact, or a model by way of the cache.

The path of a cached start is short on purpose: it imports neither the readers nor the compiler.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from circlet.backends.cpu.artifact import MAGIC, Artifact, PartitionCode, is_artifact, open_artifact
from circlet.backends.cpu.cache import Cache, cache_key
from circlet.backends.cpu.loader import Binding, Executable, Runtime, load_runtime
from circlet.backends.cpu.targets import parse_targets
from circlet.errors import ArtifactError, FileError, InputError
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.runtime.executor import BoundPartition, LoadedPartition, Runner
from circlet.runtime.user_codes import may_use_user_codes
from circlet.runtime.values import Value

Source = str | os.PathLike[str] | bytes | memoryview
_NO_COMPILER = "no compiler"
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class OpenOptions(NamedTuple):
    """How a source is turned into a plan; what `Session` was asked for.

    `shapes` names inputs whose sizes are not to be those of the file; `limits` bound what an
    untrusted network may use; `signature` names the entry point, "" for the first graph.
    """

    backends: tuple[str, ...] = ("cpu", "reference")
    strict: bool = False
    target: str = "native"
    level: str = "O2"
    cache: bool = True
    shapes: Shapes = ()
    limits: Limits = DEFAULT_LIMITS
    signature: str = ""


class Opened(NamedTuple):
    """A loaded plan.

    Attributes:
        partitions: Loaded code, in order.
        values: What crosses partitions; `inputs` and `outputs` are positions in it.
        metadata: The artifact's metadata.
        seconds: How long "load" took, and "compile" or "cache" where the source was a model.
    """

    partitions: list[LoadedPartition]
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    metadata: dict[str, Any]
    seconds: dict[str, float]

    @property
    def placement(self) -> list[dict[str, object]]:
        """The placement table as records."""
        keys = ("kind", "source", "backend", "refused")
        return [dict(zip(keys, row, strict=True)) for row in self.metadata["placement"]]


def open_source(source: Source, options: OpenOptions) -> Opened:
    """Load an artifact, or the artifact of a model: from the cache, or compiled now."""
    seconds: dict[str, float] = {}
    if is_artifact(_head(source)):
        if options.shapes or options.signature:
            raise InputError(
                "an artifact has fixed sizes and one entry point",
                why="shapes or a signature were given",
                fix="open the model file that it was made of",
            )
        with _timed(seconds, "load"):
            return _load(open_artifact(_plain(source)), options.limits, seconds)
    artifact = _artifact_of_model(source, options, seconds)
    with _timed(seconds, "load"):
        return _load(artifact, options.limits, seconds)


def _artifact_of_model(source: Source, options: OpenOptions, seconds: dict[str, float]) -> Artifact:
    def compile_now() -> bytes:
        from circlet.runtime.build import compile_model

        return compile_model(source, options)

    start = time.perf_counter()
    cache = Cache() if options.cache and not _has_user_ops(source) else None
    if cache is None:
        artifact, hit = open_artifact(compile_now()), False
    else:
        compiler = _compiler_identity(options)
        found = cache.load(_key(source, options, cache, compiler), compile_now)
        artifact, hit = found.artifact, found.hit
        if hit and compiler == _NO_COMPILER:
            _warn_of_numpy()
    seconds["cache" if hit else "compile"] = time.perf_counter() - start
    return artifact


def _has_user_ops(source: Source) -> bool:
    try:
        return may_use_user_codes(source)
    except OSError as error:
        raise _unreadable(os.fspath(source), error) from error  # type: ignore[arg-type]


def _key(source: Source, options: OpenOptions, cache: Cache, compiler: str) -> str:
    """The cache's name for an artifact: the model's bytes and everything that shapes the code."""
    if isinstance(source, (str, os.PathLike)):
        try:
            model: str | bytes | memoryview = cache.file_digest(source)
        except OSError as error:
            raise _unreadable(source, error) from error
    else:
        model = source
    targets = ",".join(map(str, parse_targets(options.target)))
    limits = options.limits._replace(run_seconds=None)
    entry = (options.signature, options.shapes)
    plan = repr((options.backends, options.strict, options.level, entry, limits))
    return cache_key(model, targets, plan, compiler)


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


def _head(source: Source) -> bytes:
    if not isinstance(source, (str, os.PathLike)):
        return bytes(source[: len(MAGIC)])
    try:
        with open(source, "rb") as file:
            return file.read(len(MAGIC))
    except OSError as error:
        raise _unreadable(source, error) from error


def _unreadable(path: str | os.PathLike[str], error: OSError) -> FileError:
    return FileError(
        "the model file cannot be read",
        where=os.fspath(path),
        why=error.strerror or str(error),
        fix="check the path and its permissions",
    )


def _plain(source: Source) -> str | os.PathLike[str] | bytes:
    return source if isinstance(source, (str, os.PathLike)) else bytes(source)


def _load(artifact: Artifact, limits: Limits, seconds: dict[str, float]) -> Opened:
    code = artifact.select()
    facts = artifact.metadata
    try:
        values = [Value.from_json(fields) for fields in facts["values"]]
        runtime = load_runtime(code.runtime) if len(code.runtime) else None
        pairs = zip(facts["partitions"], code.partitions, strict=True)
        dynamic = {index for index, value in enumerate(values) if value.is_dynamic}
        partitions = [
            _load_partition(entry, part, runtime, limits, dynamic) for entry, part in pairs
        ]
        return Opened(partitions, values, facts["inputs"], facts["outputs"], facts, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=artifact.name, why=f"metadata: {error!r}"
        ) from error


def _load_partition(
    entry: dict[str, Any],
    part: PartitionCode,
    runtime: Runtime | None,
    limits: Limits,
    dynamic: set[int],
) -> LoadedPartition:
    code: BoundPartition
    if entry["backend"] == "cpu" and runtime is not None:
        code = NativePartition(Executable(runtime, part.plan, part.constants, part.units))
    else:
        from circlet.runtime.fallback import ReferencePartition

        code = ReferencePartition(part.constants, limits)
    outputs = tuple(entry["outputs"])
    changing = tuple(value for value in outputs if value in dynamic)
    return LoadedPartition(code, tuple(entry["inputs"]), outputs, changing)


class NativePartition(NamedTuple):
    """Compiled code that can be bound to buffers."""

    executable: Executable

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """Give the plan an arena and these buffers."""
        return Binding(self.executable, inputs, outputs, threads)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = time.perf_counter() - start
