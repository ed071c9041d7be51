"""The cache's name for an artifact; on the path of every cached start, so it imports little."""

from __future__ import annotations

from circlet.artifact.cache import Cache, cache_key
from circlet.backends.registry import find_backend
from circlet.errors import CircletError
from circlet.options import DEFAULT_EXECUTOR, DEFAULT_LEVEL, DEFAULT_PRECISION, Options
from circlet.stored import Stored
from circlet.target.host import host_architecture, host_model, host_words
from circlet.user_codes import may_use_user_codes


def artifact_key(
    source: Stored,
    options: Options,
    cache: Cache,
    beside: tuple[tuple[str, str], ...] = (),
) -> str:
    """A name for the model's bytes and everything that shapes the code.

    It is "" where the cache is not to be used. `beside` are names and hashes of the files beside
    the model that hold constants of it.

    Raises:
        FileError: The model cannot be read.
    """
    if cache.folder is None or may_use_user_codes(source):
        return ""
    return key_of(cache.file_digest(source), options, beside)


def key_of(identity: str, options: Options, beside: tuple[tuple[str, str], ...] = ()) -> str:
    """A name for a network, by the hash of what it is made of, and everything else that counts."""
    targets = _target_identity(options.target)
    limits = options.limits._replace(run_seconds=None)
    entry = (options.signature, options.shapes)
    made = options.level or DEFAULT_LEVEL, options.precision or DEFAULT_PRECISION
    placed = (options.backends, options.strict, *options.backend_of)
    if options.backend_of_source:
        placed += ("source", *options.backend_of_source)
    plan = repr((placed, made, entry, limits))
    executor = options.executor or DEFAULT_EXECUTOR
    if executor != DEFAULT_EXECUTOR or options.failed:
        plan += repr((executor, options.failed, options.preferred))
    if options.loop_room:
        plan += repr(("loop room", options.loop_room))
    if options.tune_seconds:
        plan += repr((host_model(), options.tune_seconds))
    if beside:
        plan += repr(beside)
    toolchains = "\n".join(map(_toolchain, options.all_backends))
    return cache_key(identity, targets, plan, toolchains)


def _target_identity(text: str) -> str:
    """What code is for; this machine by its own words, for whose meanings no table is loaded."""
    if text == "native":
        return " ".join((host_architecture(), *sorted(host_words())))
    from circlet.target.targets import parse_targets

    return ",".join(map(str, parse_targets(text)))


def _toolchain(backend: str) -> str:
    """What compiles for a backend, or why nothing does: either makes other artifacts."""
    try:
        return f"{backend} {find_backend(backend).toolchain()}"
    except CircletError as error:
        return f"{backend} {error.code}"
    except Exception as error:  # of a backend that is not Circlet's own; compiling says more
        return f"{backend} {type(error).__name__}"
