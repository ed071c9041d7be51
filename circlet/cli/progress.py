"""What long work shows on a terminal; nothing where standard error is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int], None]


@contextmanager
def working(text: str, total: int = 0) -> Iterator[Report]:
    """Show that work goes on until the block ends; what it yields takes the runs done so far."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda done: status.update(f"{text}: run {done} of {total}")
