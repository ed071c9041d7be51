"""Strategies by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from circlet.errors import InputError
from circlet.placement.search.drive import Strategy
from circlet.placement.search.space import Space

_STRATEGIES = {
    "auto": ("auto", "auto", ""),
    "brute-force": ("simple", "brute_force", ""),
    "random": ("simple", "random_search", ""),
    "hlps": ("hlps", "hlps", ""),
    "nsga2": ("evolution", "nsga2", "pymoo"),
    "spea2": ("evolution", "spea2", "pymoo"),
    "tpe": ("tpe", "tpe", "optuna"),
}
STRATEGIES = tuple(_STRATEGIES)


def check_strategy(name: str) -> None:
    """See that there is a strategy of this name, and the package that it needs.

    Raises:
        InputError: There is not.
    """
    if name not in _STRATEGIES:
        fix = f"choose among {', '.join(STRATEGIES)}"
        raise InputError("there is no such strategy", where=name, fix=fix)
    package = _STRATEGIES[name][2]
    if package and find_spec(package) is None:
        what, fix = "a strategy needs another package", "pip install 'circlet[search]'"
        raise InputError(what, where=name, why=f"{package} is not installed", fix=fix)


def strategy(name: str, space: Space, seed: int = 0) -> Strategy:
    """The strategy of a name, ready to be asked.

    Raises:
        InputError: There is none, or it needs a package that is not installed.
    """
    check_strategy(name)
    module, function, _ = _STRATEGIES[name]
    home = import_module(f"circlet.placement.search.{module}")
    made: Strategy = getattr(home, function)(space, seed)
    return made
