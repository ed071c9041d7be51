"""Where text for people is printed: here it is escaped, and nowhere else does any leave."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from circlet.escape import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_UNBOUNDED = 100_000


_NAMES: dict[str, str] = {}


@contextmanager
def known_as(path: str, name: str) -> Iterator[None]:
    """Call a file by another name than its path in all that is printed until the block ends."""
    _NAMES[path] = name
    try:
        yield
    finally:
        del _NAMES[path]


def shown(text: str) -> str:
    """Text with the names that people know files by."""
    for path, name in _NAMES.items():
        text = text.replace(path, name)
    return text


def say(*lines: str, err: bool = False) -> None:
    """Print lines as they are, to standard error where asked."""
    click.echo("\n".join(escaped(shown(line)) for line in lines), err=err)


def console() -> Console:
    """Standard output; what goes to a file or a program is not folded at any width."""
    from rich.console import Console

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(highlight=False, width=None if is_terminal else _UNBOUNDED)


def line(out: Console, text: str) -> None:
    """Print one line among tables; nothing in it is markup."""
    out.print(cell(text), soft_wrap=True)


def cell(text: str) -> Text:
    """What a table shows; nothing in it is markup."""
    from rich.text import Text

    return Text(escaped(shown(text)))
