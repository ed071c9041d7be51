"""Lists of passes that users write, and what there is to know of each pass."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from inspect import getdoc
from typing import cast, get_type_hints

from circlet.errors import InputError
from circlet.limits import MemoryBudget
from circlet.passes.contract import contract_of
from circlet.passes.fold_constants import FoldLedger
from circlet.passes.manager import Pass
from circlet.passes.pipelines import FILE_PIPELINES, PIPELINES, file_pipeline
from circlet.passes.registry import make, pass_names

ROUNDS = 8  # of a list over a network whose file is written
_COMMENT = "#"
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class PassDescription:
    """What there is to know of a pass before it runs.

    Attributes:
        name: What lists call it.
        summary: What it does, one line.
        levels: The optimisation levels that run it when a session opens.
        file_levels: Those that run it where a file is written.
        is_exact: Whether results stay equal, number by number.
        tolerance, why: How far they may be otherwise, and what makes them differ.
        native_only: Why levels leave it out where a file is written; "" where they do not.
        options: Names of its options.
    """

    name: str
    summary: str
    levels: tuple[str, ...]
    file_levels: tuple[str, ...]
    is_exact: bool
    tolerance: float
    why: str
    native_only: str
    options: tuple[str, ...]


def described() -> tuple[PassDescription, ...]:
    """Every pass over whole networks."""
    return tuple(map(_description, pass_names()))


def read_pass(text: str) -> Pass:
    """The pass that a line names: a name, then options as `name=value` with blanks between.

    Raises:
        InputError: There is no such pass or option, or the value is none for it.
    """
    try:
        name, *words = shlex.split(text)
    except ValueError as error:
        why = "it is empty" if not text.strip() else str(error)
        raise InputError("this names no pass", where=text, why=why) from None
    kinds = _options_of(type(make(name)))
    options: dict[str, object] = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or key not in kinds:
            known = ", ".join(kinds) or "none"
            fix = f"write name=value; options of {name}: {known}"
            raise InputError("a pass has no such option", where=f"{name} {word}", fix=fix)
        options[key] = _value(kinds[key], value, f"{name} {word}")
    return make(name, **options)


def read_list(text: str, where: str = "") -> tuple[Pass, ...]:
    """The passes of a text: one a line as `read_pass` takes it; what follows a # is a comment.

    Raises:
        InputError: A line names no pass; `where` and the number of the line say which.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        wanted = line.partition(_COMMENT)[0].strip()
        if not wanted:
            continue
        try:
            found.append(read_pass(wanted))
        except InputError as error:
            place = f"{where}, line {number}: {error.where}"
            raise InputError(error.what, where=place, why=error.reasons, fix=error.fix) from None
    return tuple(found)


def charged(passes: Sequence[Pass], budget: MemoryBudget) -> tuple[Pass, ...]:
    """The passes with what they make of constants charged to one budget."""
    given: dict[str, object] = {"budget": budget, "ledger": FoldLedger(budget)}
    return tuple(_with(item, given) for item in passes)


def _with(item: object, given: dict[str, object]) -> Pass:
    own = fields(item) if is_dataclass(item) and not isinstance(item, type) else ()
    wanted = {field.name: given[field.name] for field in own if field.name in given}
    return cast(Pass, replace(item, **wanted) if wanted else item)  # type: ignore[type-var]


def _description(name: str) -> PassDescription:
    item = make(name)
    contract, summary = contract_of(item), (getdoc(item) or "").partition("\n")[0]
    return PassDescription(
        name,
        summary,
        tuple(level for level, known in PIPELINES.items() if name in known.passes),
        tuple(level for level in FILE_PIPELINES if name in _names_for_files(level)),
        contract.is_exact,
        contract.tolerance,
        contract.why,
        contract.native_only,
        tuple(_options_of(type(item))),
    )


@cache
def _names_for_files(level: str) -> frozenset[str]:
    """Passes of a level over networks that are written in the format that can say most."""
    return frozenset(item.name for item in file_pipeline(level, "circle").passes)


def _options_of(kind: type) -> dict[str, type | object]:
    """The types of the options that a line can give, by their names."""
    hints = get_type_hints(kind)
    own = {field.name: hints[field.name] for field in fields(kind)} if is_dataclass(kind) else {}
    return {name: hint for name, hint in own.items() if hint in _READERS}


def _value(kind: object, text: str, where: str) -> object:
    try:
        return _READERS[kind](text)
    except (ValueError, KeyError):
        wanted = getattr(kind, "__name__", str(kind))
        fix = f"give a value of the type {wanted}"
        raise InputError("a pass's option has no such value", where=where, fix=fix) from None


def _texts(text: str) -> Iterable[str]:
    return filter(None, map(str.strip, text.split(",")))


_READERS: dict[object, Callable[[str], object]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: _WORDS[text.lower()],
    tuple[str, ...]: lambda text: tuple(_texts(text)),
    frozenset[str]: lambda text: frozenset(_texts(text)),
    tuple[int, ...]: lambda text: tuple(map(int, _texts(text))),
}
