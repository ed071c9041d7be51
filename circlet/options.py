"""What a session was asked for, and the cache's name for what is compiled of it."""

from __future__ import annotations

import os

from circlet.artifact.cache import Cache, cache_key
from circlet.errors import FileError
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.struct import Struct
from circlet.target.host import host_architecture, host_model, host_words
from circlet.user_codes import may_use_user_codes

Source = str | os.PathLike[str] | bytes | memoryview
DEFAULT_LEVEL = "O2"
DEFAULT_PRECISION = "f32"
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
NO_COMPILER = "no compiler"


class OpenOptions(Struct):
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
    return cache_key(model, targets, plan, compiler_named(options))


def _target_identity(text: str) -> str:
    """What code is for; this machine by its own words, for whose meanings no table is loaded."""
    if text == "native":
        return " ".join((host_architecture(), *sorted(host_words())))
    from circlet.target.targets import parse_targets

    return ",".join(map(str, parse_targets(text)))


def compiler_named(options: OpenOptions) -> str:
    """What tells one C compiler from another; NO_COMPILER where there is none."""
    if "cpu" not in options.backends:
        return "none asked for"
    from circlet.backends.cpu.compiler import compiler_identity
    from circlet.errors import CompilerMissingError

    try:
        return compiler_identity()
    except CompilerMissingError:
        return NO_COMPILER
