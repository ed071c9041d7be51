"""Opens what a session is given: an artifact, or a model by way of the cache.

The path of a cached start is short on purpose: it imports neither the readers nor the compiler.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, cast

from circlet.artifact.cache import Cache
from circlet.artifact.file import MAGIC, Artifact, is_artifact, open_artifact
from circlet.backends.registry import find_backend
from circlet.compiler.key import artifact_key
from circlet.errors import CircletError, InputError, PlacementError, check_type
from circlet.options import Options
from circlet.regular_files import open_regular
from circlet.runtime.loading import Opened, load_artifact

if TYPE_CHECKING:
    from circlet.compiler.key import Stored
    from circlet.compiler.template import Source, Template

_COMPILED_IN = ("backends", "target", "shapes", "signature", "tune_seconds")


def open_source(source: Source, options: Options) -> Opened:
    """Load an artifact, or the artifact of a model: from the cache, or compiled now."""
    if type(source).__module__ == "circlet.ir.graph":  # a Model; no cached start imports that
        return _compiled_now(source, options)
    stored = cast("Stored", source)
    if holds_artifact(stored):
        return _open_artifact(stored, options)
    return _open_stored(stored, options)


def _open_artifact(source: Stored, options: Options) -> Opened:
    _check_unchanged(options)
    start = time.perf_counter()
    opened = load_artifact(open_artifact(_plain(source)), options.limits)
    opened.seconds["load"] = time.perf_counter() - start
    _check_made_for(opened, options)
    if options.strict:
        _check_strict(opened)
    return opened


def _check_unchanged(options: Options) -> None:
    """InputError where options ask for what only compiling could give."""
    asked = [name for name in _COMPILED_IN if getattr(options, name) != getattr(Options, name)]
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


def _check_made_for(opened: Opened, options: Options) -> None:
    """InputError where an artifact was compiled for another level or precision than asked for."""
    for name, wanted in (("level", options.level), ("precision", options.precision)):
        made = opened.metadata.get(name, wanted)
        if wanted not in (None, made):
            raise InputError(
                f"an artifact keeps the {name} that it was compiled for",
                where=name,
                why=f"{wanted} was asked for, it was made for {made}",
                fix=f"compile the model with {name} {wanted}",
            )


def _open_stored(source: Stored, options: Options) -> Opened:
    """The artifact of a model's file or bytes: from the cache where that has it."""
    start = time.perf_counter()
    key = artifact_key(source, options)
    if not key:
        return _compiled_now(source, options)
    templates: list[Template] = []

    def compile_now() -> bytes:
        artifact, template = _compiled(source, options)
        templates.append(template)
        return artifact

    found = Cache().load(key, compile_now)
    opened = _loaded(found.artifact, options, "cache" if found.hit else "compile", start)
    if found.hit:
        _warn_of_missing(opened, options)
    return opened._replace(key=key, template=templates[0] if templates else None)


def _compiled_now(source: Source, options: Options) -> Opened:
    start = time.perf_counter()
    artifact, template = _compiled(source, options)
    opened = _loaded(open_artifact(artifact), options, "compile", start)
    return opened._replace(template=template)


def _compiled(source: Source, options: Options) -> tuple[bytes, Template]:
    from circlet.compiler.compile import compile_template
    from circlet.compiler.template import Template

    template = Template.read(source, options)
    return compile_template(template, options).artifact, template


def _loaded(artifact: Artifact, options: Options, how: str, start: float) -> Opened:
    middle = time.perf_counter()
    opened = load_artifact(artifact, options.limits)
    opened.seconds[how] = middle - start
    opened.seconds["load"] = time.perf_counter() - middle
    return opened


def _warn_of_missing(opened: Opened, options: Options) -> None:
    """Say at every start what the first one said: what compiles for a backend is not there."""
    used = {part["backend"] for part in opened.metadata["partitions"]}
    for name in options.backends:
        if name in used:
            continue
        try:
            find_backend(name).toolchain()
        except CircletError as error:
            import logging

            message = "nothing is compiled for backend %s: %s"
            logging.getLogger(__name__).warning(message, name, error)


def holds_artifact(source: Stored) -> bool:
    """Whether a source starts as an artifact does.

    Raises:
        FileError: It cannot be read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return is_artifact(bytes(source[: len(MAGIC)]))
    wanted = "the path or the bytes of a network, or a circlet.ir.Model"
    check_type(source, str | os.PathLike, "source", wanted)
    with open_regular(source, "the model file") as file:
        return is_artifact(file.read(len(MAGIC)))


def _plain(source: Stored) -> str | os.PathLike[str] | bytes:
    return source if isinstance(source, (str, os.PathLike)) else bytes(source)
