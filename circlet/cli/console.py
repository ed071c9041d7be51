"""Where tables for people are printed."""

from __future__ import annotations

import sys

from rich.console import Console

_UNBOUNDED = 100_000


def console() -> Console:
    """Standard output; what goes to a file or a program is not folded at any width."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNBOUNDED)
