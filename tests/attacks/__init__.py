"""Hostile model files: one module per abuse, with `make()` for its bytes and the expected `CODE`.

`CODE` is the code of the error that loading raises, or "" where the file is harmless and loads.
Fuzzers use the same bytes as seeds.
"""

from __future__ import annotations

import pkgutil

_HELPERS = ("build", "confined", "growth")


def attack_names() -> list[str]:
    """The modules that make one hostile file each."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return [name for name in names if name not in _HELPERS and not name.startswith("test_")]
