"""ONE's settings of where operators run: text to options that mean the same here.

Names and precedence are those of ONE's runtime: a backend for operators by position goes before one
for their kind, that before one for all, and that before the first of the list.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from circlet.errors import InputError
from circlet.options import DEFAULT_BACKENDS, PlacementRules
from circlet.placement.by_source import EVERY
from circlet.placement.one_operations import KINDS, MADE_BY_ONE
from circlet.regular_files import StrPath, open_regular

NAMES = frozenset({"BACKENDS", "EXECUTOR", "USE_SCHEDULER", "PROFILING_MODE"})
PREFIX = "OP_BACKEND_"
MEASURE = "measure"
_FALSE = frozenset({"0", "OFF", "FALSE", "N", "NO"})
_MOST_BYTES = 1 << 20
LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class OneConfig:
    """What ONE's settings ask for.

    Attributes:
        backends: Backends in order of preference; empty where BACKENDS is not set.
        rules: For `Options.backend_of_source`.
        executor: The EXECUTOR as `Options.executor` names it; "" where it is not set.
        scheduling: Whether operators are to be placed by what they cost: "" for no, "known" by
            costs that are kept, for USE_SCHEDULER alone, "measure" after measuring what is
            missing, with PROFILING_MODE.
    """

    backends: tuple[str, ...] = ()
    rules: PlacementRules = ()
    executor: str = ""
    scheduling: str = ""


@dataclass
class _Reading:
    """What is read so far; says of each setting that means nothing here that it is left out."""

    settings: Mapping[str, str]
    known: Collection[str]
    strict: bool
    rules: list[tuple[str, str]] = field(default_factory=list)

    def text(self, key: str) -> str:
        """A setting, with "" for one that is not there, as ONE has it."""
        return self.settings.get(key, "").strip()

    def is_true(self, key: str) -> bool:
        """Whether a switch is set and not to one of ONE's words for no, in either case."""
        text = self.text(key)
        return bool(text) and text.upper() not in _FALSE

    def leave_out(self, where: str, why: str, fix: str) -> None:
        """Log, or raise where `strict`."""
        what = "a setting of ONE's means nothing here"
        if self.strict:
            raise InputError(what, where=where, why=why, fix=fix)
        LOGGER.warning("%s and is left out: %s: %s", what, where, why)

    def takes(self, name: str, where: str) -> bool:
        """Whether there is a backend of a name among those that may be used."""
        if name not in self.known:
            why = f"there is no backend {name!r} here, or BACKENDS does not list it"
            self.leave_out(where, why, f"choose among {', '.join(self.known)}")
        return name in self.known

    def add(self, words: Collection[str], name: str, where: str) -> None:
        """A rule for each of some words, if there is such a backend."""
        if self.takes(name, where):
            self.rules += [(word, name) for word in words]


def one_config(
    settings: Mapping[str, str], known: Collection[str], *, strict: bool = False
) -> OneConfig:
    """What ONE's settings ask for, by their names: BACKENDS, OP_BACKEND_MAP and so on.

    Args:
        settings: Texts by name; an empty one counts as absent, and those of other names are not
            looked at.
        known: The backends that there are.
        strict: Whether a setting that means nothing here is an error; else it is logged.

    Raises:
        InputError: No backend of the list is here, there is no such executor, or `strict`.
    """
    reading = _Reading(settings, known, strict)
    backends = _backends(reading)
    if backends:
        reading.known = backends
    _rules_by_position(reading)
    _rules_by_kind(reading)
    if everywhere := reading.text(f"{PREFIX}ALLOPS"):
        reading.add([EVERY], everywhere, f"{PREFIX}ALLOPS={everywhere}")
    return OneConfig(
        backends,
        tuple(reading.rules),
        _executor(reading),
        _scheduling(reading),
    )


def is_setting(name: str) -> bool:
    """Whether a setting is one that `one_config` looks at."""
    return name in NAMES or name.startswith(PREFIX)


def read_one_config(path: StrPath) -> dict[str, str]:
    """The settings of a .cfg file of ONE's: a line each, key=value, # before a comment.

    Raises:
        FileError: The file cannot be read.
        InputError: It is too large, or not text.
    """
    with open_regular(path, "a file of settings") as file:
        data = file.read(_MOST_BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        what, why = "a file of settings is no text", str(error)
        raise InputError(what, where=str(path), why=why) from None
    if len(data) > _MOST_BYTES:
        what, why = "a file is too large for settings", f"more than {_MOST_BYTES:,} bytes"
        raise InputError(what, where=str(path), why=why)
    lines = [line.partition("#")[0] for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if line.strip() and "=" not in line:
            LOGGER.warning("a line is no setting and is left out: %s, line %d", path, number)
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _backends(reading: _Reading) -> tuple[str, ...]:
    """Those of BACKENDS that are here, and what stands for ONE's builtin backend behind them."""
    text = reading.text("BACKENDS")
    listed = dict.fromkeys(filter(None, map(str.strip, text.split(";"))))
    found = [name for name in listed if reading.takes(name, f"BACKENDS={text}")]
    if text and not found:
        raise InputError(
            "no backend of ONE's list is here",
            where=f"BACKENDS={text}",
            fix=f"choose among {', '.join(reading.known)}",
        )
    return tuple(dict.fromkeys([*found, DEFAULT_BACKENDS[-1]])) if found else ()


def _rules_by_position(reading: _Reading) -> None:
    for pair in filter(None, map(str.strip, reading.text(f"{PREFIX}MAP").split(";"))):
        where = f"{PREFIX}MAP={pair}"
        position, equals, name = map(str.strip, pair.partition("="))
        if not equals or not position.isascii() or not position.isdigit():
            fix = "give positions and backends such as 0=cpu;1=litert"
            reading.leave_out(where, "it is no position, = and a backend", fix)
            continue
        reading.add([str(int(position))], name, where)


def _rules_by_kind(reading: _Reading) -> None:
    for key in sorted(reading.settings):
        operation = key.removeprefix(PREFIX)
        name = reading.text(key)
        if operation == key or operation in {"ALLOPS", "MAP"} or not name:
            continue
        where = f"{key}={name}"
        if operation in KINDS:
            reading.add(KINDS[operation], name, where)
        elif operation not in MADE_BY_ONE:
            reading.leave_out(where, f"ONE has no operation {operation!r}", "see docs/placement.md")


def _executor(reading: _Reading) -> str:
    text = reading.text("EXECUTOR")
    if text and text not in {"Linear", "Dataflow", "Parallel"}:
        raise InputError(
            "there is no such executor",
            where=f"EXECUTOR={text}",
            fix="choose Linear, Dataflow or Parallel",
        )
    return text.lower()


def _scheduling(reading: _Reading) -> str:
    measures = reading.is_true("PROFILING_MODE")
    if reading.is_true("USE_SCHEDULER"):
        return MEASURE if measures else "known"
    if measures:
        raise InputError(
            "only a scheduler profiles",
            where="PROFILING_MODE",
            why="USE_SCHEDULER is not set",
            fix="set USE_SCHEDULER=1 as well",
        )
    return ""
