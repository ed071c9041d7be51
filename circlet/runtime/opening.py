"""Opens what a session is given: a model by way of the cache, or an artifact that is trusted.

Which of the two it is, the caller says: no content of a file makes it one that is executed. The
path of a cached start is short on purpose: it imports neither the readers nor the compiler.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from circlet.artifact.cache import Cache
from circlet.artifact.file import Artifact, open_artifact
from circlet.backends.registry import find_backend
from circlet.errors import CircletError, FileError
from circlet.garbage import gc_paused
from circlet.options import Options
from circlet.runtime.artifacts import ArtifactSource, open_trusted
from circlet.runtime.beside import digests_beside
from circlet.runtime.key import artifact_key, key_of
from circlet.runtime.loading import Opened, load_code
from circlet.stored import Bytes, Stored, StrPath, stored
from circlet.struct import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from circlet.compiler.template import Template
    from circlet.ir import Model


class ModelSource(Struct):
    """A model of something else than a file, made where no cache has its artifact.

    Attributes:
        identity: A text that differs where the model does.
        make: Makes the model; the same one each time.
        cache: Where its artifact may be kept; None for the cache of the environment.
    """

    identity: str
    make: Callable[[], Model]
    cache: Cache | None = None


if TYPE_CHECKING:
    Source = StrPath | Bytes | Stored | Model | ArtifactSource | ModelSource


def open_source(source: Source, options: Options, model: str = "") -> Opened:
    """Load an artifact, or the artifact of a model: from the cache, or compiled now.

    Args:
        source: A model or an artifact.
        options: What it is wanted for.
        model: The hash of the bytes that the model must have, where that is known.

    Raises:
        FileError: The model's file cannot be read, or has other bytes.
        CircletError: As `Session`; of a backend where no other takes over.
    """
    while True:
        try:
            opened = _opened(source, options, model)
            return opened._replace(failed=options.failed) if options.failed else opened
        except CircletError as error:
            others = None
            if options.fallback:
                from circlet.runtime.fallback import taken_over

                others = taken_over(options, error)
            if others is None:
                raise
            options = others


def _opened(source: Source, options: Options, model: str) -> Opened:
    if isinstance(source, ArtifactSource):
        return open_trusted(source, options)
    if isinstance(source, ModelSource):
        return _open_made(source, options)
    if type(source).__module__ == "circlet.ir.graph":  # a Model; no cached start imports that
        return _compiled_now(source, options)  # type: ignore[arg-type]
    file = stored(source)  # type: ignore[arg-type]
    options.limits.check_file(file.size, file.name)
    return _open_stored(file, options, model)


def _open_stored(file: Stored, options: Options, model: str) -> Opened:
    """The artifact of a model's file or bytes: from the cache where that has it."""
    start = time.perf_counter()
    cache = Cache() if options.cache else None
    beside = None if cache is None else digests_beside(file, cache)
    if cache is None or beside is None or not (key := artifact_key(file, options, cache, beside)):
        check_same(file, model)
        return _compiled_now(file, options)
    if model and cache.file_digest(file) != model:
        raise changed(file)
    templates: list[Template] = []

    def compile_now() -> bytes:
        artifact, template = _compiled(file, options, key)
        is_same = template.digest == cache.file_digest(file)
        if not is_same or (beside and digests_beside(file, cache) != beside):
            raise changed(file)
        templates.append(template)
        return artifact

    def keeps() -> bool:
        return bool(beside) or templates[-1].is_whole

    found = cache.load(key, compile_now, verify=options.verify, keeps=keeps)
    opened = _loaded(found.artifact, options, "cache" if found.hit else "compile", start)
    if found.hit:
        _warn_of_missing(opened, options)
    return opened._replace(template=templates[0] if templates else None)


def _open_made(source: ModelSource, options: Options) -> Opened:
    """The artifact of a model that is made: from the cache where that has it."""
    start = time.perf_counter()
    cache = (source.cache or Cache()) if options.cache else None
    if cache is None or cache.folder is None:
        return _compiled_now(source.make(), options)
    key = key_of(source.identity, options)
    templates: list[Template] = []

    def compile_now() -> bytes:
        artifact, template = _compiled(source.make(), options, key)
        templates.append(template)
        return artifact

    found = cache.load(key, compile_now, verify=options.verify)
    opened = _loaded(found.artifact, options, "cache" if found.hit else "compile", start)
    return opened._replace(template=templates[0] if templates else None)


def check_same(file: Stored, model: str) -> None:
    """FileError where a file's bytes have another hash than this, if any is given."""
    if not model:
        return
    from circlet.artifact.digest import digest

    if digest(file.data()).hex() != model:
        raise changed(file)


def changed(file: Stored) -> FileError:
    """The error of a model file that is not any more what it was."""
    return FileError(
        "the model file changed since it was opened",
        where=file.name,
        why="its bytes are others now",
        fix="open a new session; write files under another name and rename them",
    )


def _compiled_now(source: Stored | Model, options: Options) -> Opened:
    start = time.perf_counter()
    artifact, template = _compiled(source, options)
    opened = _loaded(open_artifact(artifact), options, "compile", start)
    return opened._replace(template=template)


@gc_paused()
def _compiled(source: Stored | Model, options: Options, key: str = "") -> tuple[bytes, Template]:
    from circlet.compiler.compile import compile_template
    from circlet.compiler.template import Template

    _check_target(options.target)
    template = Template.read(source, options)
    return compile_template(template, options, key).artifact, template


def _check_target(text: str) -> None:
    """TargetError where what would be compiled could not be run here."""
    from circlet.target.targets import missing_on_host, parse_targets, unfit_for_host

    targets = parse_targets(text)
    if all(map(missing_on_host, targets)):
        raise unfit_for_host(targets, f"target {text}")


def _loaded(artifact: Artifact, options: Options, how: str, start: float) -> Opened:
    middle = time.perf_counter()
    opened = load_code(artifact, options.limits)
    opened.seconds[how] = middle - start
    opened.seconds["load"] = time.perf_counter() - middle
    return opened


def _warn_of_missing(opened: Opened, options: Options) -> None:
    """Say at every start what the first one said: what compiles for a backend is not there."""
    used = {part["backend"] for part in opened.metadata["partitions"]}
    for name in options.backends:
        if name in used or name in dict(options.failed):
            continue
        try:
            find_backend(name).toolchain()
        except Exception as error:  # whatever a backend raises: it is not used here
            import logging

            message = "nothing is compiled for backend %s: %s"
            logging.getLogger(__name__).warning(message, name, error)
