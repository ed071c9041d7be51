"""Model files to `circlet.ir.Model` and back; `registry` knows the kinds of files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet.formats.files import (
        dumps,
        dumps_whole,
        load,
        load_whole,
        located,
        open_reader,
        save,
    )

__all__ = ["dumps", "dumps_whole", "load", "load_whole", "located", "open_reader", "save"]


def __getattr__(name: str) -> object:
    """Import the readers where they are used: pictures and sounds are read without them."""
    if name not in __all__:
        raise AttributeError(f"module 'circlet.formats' has no attribute {name!r}")
    return getattr(import_module("circlet.formats.files"), name)
