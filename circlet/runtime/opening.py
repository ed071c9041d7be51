"""Opens what a session is given: an artifact, or a model by way of the cache.

The path of a cached start is short on purpose: it imports neither the readers nor the compiler.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from circlet.artifact.cache import Cache
from circlet.artifact.file import MAGIC, is_artifact, open_artifact
from circlet.errors import FileError, InputError, PlacementError, check_type
from circlet.options import (
    NO_COMPILER,
    OpenOptions,
    Source,
    artifact_key,
    compiler_named,
)
from circlet.runtime.loading import Opened, load_artifact

if TYPE_CHECKING:
    from circlet.compiler.template import Template

_COMPILED_IN = ("backends", "target", "shapes", "signature", "tune_seconds")


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
        from circlet.compiler.compile import compile_template
        from circlet.compiler.template import Template

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
    if hit and not opened.is_native and compiler_named(options) == NO_COMPILER:
        _warn_of_numpy()
    return opened._replace(key=key, template=templates[0] if templates else None)


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
