"""Refuses to measure where other processes use the machine, unless told to go on."""

from __future__ import annotations

import sys

from circlet.comparison.load import MOST_CORES, Moment, Watch, busy_seconds, reason

__all__ = ["MOST_CORES", "Moment", "Watch", "busy_seconds", "reason", "watch"]


def watch(may_be_loaded: bool) -> Watch:
    """A watch from now on; ends the program where the machine is loaded and may not be."""
    begun = Watch()
    why = reason(begun.facts())
    if why and not may_be_loaded:
        sys.exit(f"not measured: {why}; wait for them to end, or say --loaded, and the page tells")
    return begun
