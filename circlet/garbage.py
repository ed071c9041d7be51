"""The collector of cyclic garbage, kept from looking where there is none."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_is_paused = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """No cyclic garbage is looked for, where all but nothing that is made becomes any."""
    global _is_paused
    was_enabled = gc.isenabled()
    _is_paused |= was_enabled
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _is_paused = False
            gc.enable()


def _end_pause() -> None:
    """The thread that would end it does not live on in a forked child."""
    if _is_paused:
        gc.enable()


os.register_at_fork(after_in_child=_end_pause)
