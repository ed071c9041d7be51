"""`-` in place of a file: standard input, kept in a temporary file while a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from circlet.cli.console import known_as
from circlet.errors import FileError, InputError
from circlet.limits import DEFAULT_LIMITS
from circlet.scratch import scratch_folder

_PLACE = Path("/dev/stdin")
_WHAT = "standard input"
_CHUNK_BYTES = 1 << 20
_HEADS = {b"\x93NUMPY": ".npy", b"PK\3\4": ".npz", b"RIFF": ".wav", b"fLaC": ".flac"}
_HEADS |= {b"OggS": ".ogg", b"ID3": ".mp3"}


class InputFile(click.Path):
    """The path of a file to read, or `-` for standard input."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path; that of the system's standard input for `-`."""
        return _PLACE if value == "-" else Path(str(value))


@contextmanager
def standard_input(ctx: click.Context) -> Iterator[None]:
    """Have the parameters of a command that name standard input name a file of what it holds.

    Raises:
        BadParameter: `-` stands for a file that is not read, or for two files.
        InputError: There is nothing to read.
        FileError: It cannot be read, or not be kept.
        LimitError: It is larger than any file may be.
    """
    asking = [param for param in ctx.command.params if _asks(param, ctx)]
    if not asking:
        yield
        return
    _check(asking, ctx)
    with scratch_folder() as folder:
        path = _spooled(Path(folder))
        (param,) = asking
        given = ctx.params[str(param.name)]
        files = tuple(path if item == _PLACE else item for item in _all(given))
        ctx.params[str(param.name)] = files if isinstance(given, tuple) else path
        with known_as(str(path), _WHAT):
            yield


def _asks(param: click.Parameter, ctx: click.Context) -> bool:
    if not isinstance(param.type, click.Path):
        return False
    place = _PLACE if isinstance(param.type, InputFile) else Path("-")
    return place in _all(ctx.params.get(str(param.name)))


def _all(given: object) -> tuple[object, ...]:
    return given if isinstance(given, tuple) else (given,)


def _check(asking: Sequence[click.Parameter], ctx: click.Context) -> None:
    for param in asking:
        if not isinstance(param.type, InputFile):
            raise click.BadParameter("'-' is no file here; give a path", ctx, param)
    given = [item for param in asking for item in _all(ctx.params[str(param.name)])]
    if given.count(_PLACE) > 1:
        raise click.BadParameter("standard input can stand for one file only", ctx, asking[-1])


def _spooled(folder: Path) -> Path:
    """A file of what standard input holds, whose name ends as its contents ask for."""
    stream = _stream()
    try:
        head = stream.read(_CHUNK_BYTES)
        if not head:
            raise InputError("there is nothing to read", where=_WHAT, fix="pipe a file into it")
        ending = next((end for start, end in _HEADS.items() if head.startswith(start)), "")
        path, size, chunk = folder / f"standard-input{ending}", 0, head
        with path.open("wb") as file:
            while chunk:
                size += len(chunk)
                DEFAULT_LIMITS.check_file(size, _WHAT)
                file.write(chunk)
                chunk = stream.read(_CHUNK_BYTES)
    except OSError as error:
        raise FileError.unreadable(_WHAT, _WHAT, error) from error
    return path


def _stream() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("there is nothing to read", where=_WHAT, why="it is closed")
    if sys.stdin.isatty():
        fix = "pipe a file into it, or give the path of one"
        raise InputError("there is nothing to read", where=_WHAT, why="it is a terminal", fix=fix)
    return sys.stdin.buffer
