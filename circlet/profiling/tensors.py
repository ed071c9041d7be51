"""Intermediate tensors of a run, by the names that the user's file has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.artifact.values import unique_names
from circlet.backends.base import Observation
from circlet.errors import InputError
from circlet.runtime.session import Session

_EXACT_LEVEL = "O0"


@dataclass(frozen=True)
class Intermediate:
    """A tensor of a run.

    Attributes:
        name: As the file has it.
        array: Its values, a copy.
        level: The optimisation level at which it was seen: the session's, or O0 where a kernel of
            the session computes it on the way and never has it in memory.
        scale, zero_point: Its quantisation along `axis`, empty where there is none.
    """

    name: str
    array: np.ndarray
    level: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0


def intermediates(
    session: Session, inputs: Sequence[np.ndarray], names: Iterable[str]
) -> dict[str, Intermediate]:
    """Tensors of one run, in the order in which they are named.

    The session's own kernels compute them, in the memory and the order of every run, and its
    outputs are bit for bit what they are without being looked at. What these kernels do not write
    to memory, as it lies within a fused one, is computed at level O0.

    Raises:
        InputError: No operator has a result of that name.
    """
    wanted = list(dict.fromkeys(names))
    found = _seen(session, inputs, set(wanted))
    missing = set(wanted) - found.keys()
    if missing and session.source is not None and _level(session) != _EXACT_LEVEL:
        options = session.options._replace(level=_EXACT_LEVEL)
        exact = Session.of(session.source, options, threads=session.threads)
        found |= _seen(exact, inputs, missing)
    for name in wanted:
        if name not in found:
            raise _unknown(name, session)
    return {name: found[name] for name in wanted}


def _seen(
    session: Session, inputs: Sequence[np.ndarray], wanted: set[str]
) -> dict[str, Intermediate]:
    level, found = _level(session), dict[str, Intermediate]()

    def observe(observation: Observation) -> None:
        for value in observation.values:
            if value.name in wanted:
                facts = value.scale, value.zero_point, value.axis
                found[value.name] = Intermediate(value.name, value.array.copy(), level, *facts)

    outputs = session.run(inputs, observer=observe)
    rows = zip(unique_names(session.outputs), session.outputs, outputs.values(), strict=True)
    for name, value, array in rows:
        if name in wanted and name not in found:
            found[name] = Intermediate(name, array, level, value.scale, value.zero_point)
    return found


def _level(session: Session) -> str:
    return str(session.opened.metadata.get("level", ""))


def _unknown(name: str, session: Session) -> InputError:
    from difflib import get_close_matches

    sources = {str(row["source"]) for row in session.placement}
    known = sorted(part for source in sources for part in source.split("+"))
    near = get_close_matches(name, known, 3, cutoff=0.3)
    return InputError(
        "no operator makes a tensor of that name",
        where=name,
        why="it is constant, folded away, or not in the file",
        fix=f"names like it are {', '.join(near)}" if near else "circlet inspect --tensors",
    )
