"""What all commands share: coded errors, `--json`, the logger."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from circlet.cli.console import say, shown
from circlet.cli.standard_input import standard_input
from circlet.config import Config
from circlet.errors import CircletError, InputError
from circlet.escape import escaped
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.options import (
    DEFAULT_BACKENDS,
    DEFAULT_OPTIONS,
    EXECUTORS,
    Options,
    PlacementRules,
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def _level(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The level's name, also of what compilers take: `-O2` is `-O O2`."""
    return text if text is None or text.startswith("O") else f"O{text}"


level_option = partial(
    click.option,
    "-O",
    "level",
    metavar="LEVEL",
    callback=_level,
    help="Optimisation level: O0, O1, O2, or Os for the least memory; also as -O2.",
)

backend_option = click.option(
    "--backend",
    "backends",
    default=",".join(DEFAULT_BACKENDS),
    show_default=True,
    callback=lambda ctx, param, text: tuple(filter(None, map(str.strip, text.split(",")))),
    help="Backends in order of preference, separated by commas.",
)


def _rules(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> PlacementRules:
    """Each REGEX=BACKEND as a pair."""
    pairs = tuple(text.rpartition("=")[::2] for text in given)
    if not all(pattern and name for pattern, name in pairs):
        raise click.BadParameter("give a regular expression, = and the name of a backend")
    return pairs


backend_of_option = click.option(
    "--backend-of",
    "backend_of",
    metavar="REGEX=BACKEND",
    multiple=True,
    callback=_rules,
    help="Place operators whose name or kind REGEX matches as a whole; may be repeated.",
)

one_config_option = click.option(
    "--one-config",
    "one_config",
    type=click.Path(path_type=Path),
    help="Settings of Samsung ONE's runtime, as in an nnpackage's metadata/*.cfg.",
)

executor_option = click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    help="What runs the partitions: one after the other, by the work that waits for them, or side "
    "by side. Default: CIRCLET_EXECUTOR, the artifact's, or linear.",
)

fallback_option = click.option(
    "--fallback",
    default="",
    metavar="BACKENDS",
    callback=lambda ctx, param, text: tuple(filter(None, map(str.strip, text.split(",")))),
    help="Backends, separated by commas, that take over from one that fails.",
)

strict_option = click.option(
    "--strict", is_flag=True, help="Fail if the first backend does not take an operator."
)

precision_option = partial(
    click.option,
    "--precision",
    type=click.Choice(["f32", "bf16", "f16"]),
    help="What operands of float convolutions and matrix products may be rounded to.",
)


def _limits(ctx: click.Context, param: click.Parameter, text: str | None) -> Limits:
    """The default limits with another one of memory: a number with K, M, G or T behind it."""
    if text is None:
        return DEFAULT_LIMITS
    return DEFAULT_LIMITS._replace(memory_bytes=size_of(text))


def size_of(text: str) -> int:
    """Bytes of a number with K, M, G or T behind it; click.BadParameter for other texts."""
    match = re.fullmatch(r"([0-9]{1,15}) ?([KMGT]?)(iB|B)?", text, re.IGNORECASE)
    if match is None or not int(match[1]):
        raise click.BadParameter("give a size such as 512M or 2G")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


max_memory_option = click.option(
    "--max-memory",
    "limits",
    metavar="SIZE",
    callback=_limits,
    help="Most memory that may grow from the files, such as 512M or 2G; default: 768M. "
    "A network's own file adds 8 times its size.",
)


def options_of(picked: dict[str, object]) -> Options:
    """What a session is asked for among a command's options, from which it is taken out."""
    names = [name for name in DEFAULT_OPTIONS._asdict() if name in picked]
    chosen = DEFAULT_OPTIONS._replace(**{name: picked.pop(name) for name in names})
    from circlet.runtime.one_options import with_one_settings

    def scheduled(options: Options, scheduling: str) -> Options:
        from circlet.commands.scheduling import schedule

        return schedule(options, scheduling, picked.get("model"), picked.get("threads"))

    one_config = picked.pop("one_config", None)
    return with_one_settings(chosen, one_config, scheduled)  # type: ignore[arg-type]


def given_options() -> list[str]:
    """The options that the user gave the command that runs, as they are written."""
    ctx = click.get_current_context()
    return [
        max(param.opts, key=len)
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]


class CircletCommand(click.Command):
    """A command whose `CircletError`s end in exit code 1 and a message, as JSON if asked."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command's function."""
        try:
            with standard_input(ctx):
                return self._answer(ctx)
        except CircletError as error:
            self._fail(ctx, error)

    def _answer(self, ctx: click.Context) -> Any:
        """Run the function and say what went wrong, while files go by the names that they have."""
        try:
            return super().invoke(ctx)
        except CircletError as error:
            self._fail(ctx, error)

    def _fail(self, ctx: click.Context, error: CircletError) -> NoReturn:
        if ctx.params.get("as_json"):
            print_json({"error": error.as_dict()})
        else:
            say(*str(error).split("\n"), err=True)
        ctx.exit(1)


def print_json(data: object) -> None:
    """Print plain data as JSON; not-a-number and infinities become null."""
    click.echo(json.dumps(_finite(data), indent=2, allow_nan=False))


def _finite(data: object) -> object:
    """The data with None for not-a-number and infinities, which JSON does not know."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, str):
        return shown(data)
    return None if isinstance(data, float) and not math.isfinite(data) else data


def duration(seconds: float) -> str:
    """A time in the unit that a person would choose, with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{_digits(seconds * scale)} {unit}"
    return f"{_digits(seconds * 1e6)} us"


def _digits(number: float) -> str:
    return f"{number:.{max(0, 2 - len(str(int(number))) + 1)}f}"


def start_logging() -> None:
    """Send the package's log to standard error at the level of CIRCLET_LOG."""
    name = Config.from_environment().log_level.upper()
    level = logging.getLevelNamesMapping().get(name)
    if level is None:
        fix = "set it to debug, info, warning or error"
        raise InputError("there is no such log level", where="CIRCLET_LOG", why=name, fix=fix)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Escaping("%(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class _Escaping(logging.Formatter):
    """Shows the lines of a record with nothing in them that does not print."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, super().format(record).split("\n")))
