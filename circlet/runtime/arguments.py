"""Arguments of sessions, checked: a wrong type or value ends in a coded error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from operator import index
from types import UnionType

from circlet.backends.registry import check_backend
from circlet.config import Config
from circlet.deadline import NANOSECONDS
from circlet.errors import InputError, check_type
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.options import EXECUTORS, VERIFY, Options, PlacementRules, Shapes

_LONGEST_NS = 1 << 62
_MOST_THREADS = 64  # CIRCLET_MAX_THREADS of the runtime library
_TYPES: dict[str, tuple[type | UnionType, str]] = {
    "strict": (bool, "True or False"),
    "target": (str, "a name, such as 'native' or 'baseline'"),
    "level": (str | None, "one of 'O0', 'O1', 'O2' and 'Os'"),
    "precision": (str | None, "'f32', 'bf16' or 'f16'"),
    "cache": (bool, "True or False"),
    "limits": (Limits, "a circlet.limits.Limits"),
    "signature": (str, "the key of a signature, or '' for the first graph"),
}


def check_options(options: Options) -> None:
    """See that options which nothing else looks at first are what they may be; else InputError."""
    for name, (kind, wanted) in _TYPES.items():
        check_type(getattr(options, name), kind, name, wanted)
    if options.verify not in VERIFY:
        what, why = "weights are verified once or always", repr(options.verify)
        raise InputError(what, where="verify", why=why, fix=f"give one of {', '.join(VERIFY)}")
    if options.executor is not None and options.executor not in EXECUTORS:
        raise InputError(
            "there is no such executor",
            where="executor",
            why=repr(options.executor),
            fix=f"give one of {', '.join(EXECUTORS)}, or set CIRCLET_EXECUTOR to one",
        )
    if options.fallback and options.strict:
        raise InputError(
            "strict lets no other backend take over",
            where="fallback",
            fix="leave `strict` or `fallback` out",
        )
    for name in options.fallback:
        check_backend(name)
    if options.limits is not DEFAULT_LIMITS:
        for name, value in options.limits._asdict().items():
            if name != "run_seconds":
                check_type(value, Integral, f"limits.{name}", "a whole number")


def checked_options(options: Options) -> Options:
    """The options with what the environment says where they say nothing, as `check_options`."""
    if options.executor is None:
        options = options._replace(executor=Config.from_environment().executor or None)
    check_options(options)
    return options.of_session()


def checked_names(backends: Sequence[str], where: str = "backends") -> tuple[str, ...]:
    """The names of backends; one name by itself is no list."""
    is_row = isinstance(backends, Sequence) and not isinstance(backends, str)
    if not is_row or not all(isinstance(name, str) for name in backends):
        wanted = "a list of names, such as ['cpu', 'reference']"
        raise InputError.mistyped(where, backends, wanted)
    return tuple(backends)


def checked_rules(backend_of: Mapping[str, str]) -> PlacementRules:
    """Regular expressions and the backends that they place operators on."""
    check_type(backend_of, Mapping, "backend_of", "a dict of backends by regular expressions")
    for pattern, name in backend_of.items():
        check_type(pattern, str, "backend_of", "a regular expression")
        check_type(name, str, f"backend_of[{pattern!r}]", "the name of a backend")
    return tuple(backend_of.items())


def checked_shapes(shapes: Mapping[str, Sequence[int]]) -> Shapes:
    """Sizes by input, as whole numbers of 0 or more."""
    check_type(shapes, Mapping, "shapes", "a dict of sizes by the name of an input")
    return tuple((name, _checked_sizes(name, shape)) for name, shape in shapes.items())


def _checked_sizes(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(index(size) for size in shape)
    except TypeError as error:
        what, why = "a shape is not a list of whole numbers", repr(shape)
        raise InputError(what, where=name, why=why, fix="give one size per dimension") from error
    if min(sizes, default=0) < 0:
        raise InputError("a size is negative", where=name, why=f"shape {list(sizes)}")
    return sizes


def checked_seconds(seconds: float) -> float:
    """A time that may be 0."""
    check_type(seconds, Real, "tune_seconds", "a number of seconds, or 0 for no tuning")
    if not 0 <= seconds < float("inf"):
        why, fix = f"{seconds} s", "give a number of seconds, or 0 for no tuning"
        raise InputError("tuning takes some time or none", where="tune_seconds", why=why, fix=fix)
    return float(seconds)


def thread_count(threads: int | None) -> int:
    """The number of threads, by default that of the settings or of the cores that may be used."""
    if threads is None:
        from circlet.target.threads import default_threads

        threads = Config.from_environment().threads or default_threads()
    check_type(threads, Integral, "threads", "a whole number, 1 or more")
    if threads < 1:
        raise InputError(f"{threads} threads", where="threads", fix="give 1 or more")
    return min(int(threads), _MOST_THREADS)


def nanoseconds(timeout: float | None, where: str = "timeout") -> int:
    """A time limit; 0 for none."""
    if timeout is None:
        return 0
    check_type(timeout, Real, where, "a number of seconds, or None for no bound")
    if not timeout > 0:
        raise InputError("the timeout is not positive", where=where, why=f"{timeout} s")
    return max(1, int(min(timeout * NANOSECONDS, _LONGEST_NS)))
