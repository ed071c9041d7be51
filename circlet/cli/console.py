"""Where text for people is printed: here it is escaped, and nowhere else does any leave."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from circlet.escape import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_UNBOUNDED = 100_000
_SHOWN_ROWS = 500


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


def show_table(
    out: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numbers: Collection[str] = (),
) -> None:
    """Print a table; on a terminal as many rows as somebody may read, and how many more there are.

    Columns whose headings are among `numbers` are set to the right.
    """
    if len(rows) > _SHOWN_ROWS and not out.is_terminal:
        _print_plain([title] if title else [], headings, rows, numbers)
        return
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None)
    for heading in headings:
        is_number = heading in numbers
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows[:_SHOWN_ROWS]:
        table.add_row(*map(cell, row))
    print_table(out, table)
    if len(rows) > _SHOWN_ROWS:
        line(out, f"and {len(rows) - _SHOWN_ROWS:,} more; --json, or a pipe, shows all")


def print_table(out: Console, table: Table) -> None:
    """Print a table; in files and pipes without the blanks that fill its last column."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    click.echo("\n".join(text.rstrip() for text in captured.get().splitlines()))


def _print_plain(
    lines: list[str],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[str],
) -> None:
    """Print a long table: what lays out short ones takes a minute for 10,000 rows."""
    cells = [[escaped(shown(text)) for text in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = [str.rjust if heading in numbers else str.ljust for heading in headings]
    for row in cells:
        parts = zip(row, widths, aligned, strict=True)
        lines.append("  ".join(align(text, width) for text, width, align in parts).rstrip())
    click.echo("\n".join(f" {text}" for text in lines))


def cell(text: str) -> Text:
    """What a table shows; nothing in it is markup."""
    from rich.text import Text

    return Text(escaped(shown(text)))
