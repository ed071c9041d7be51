"""Placement by hand: operators that a user gives to a backend, by their names or kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from circlet.errors import InputError
from circlet.ir import Graph, Op
from circlet.options import PlacementRules
from circlet.placement.interface import Candidate


def chosen_by_hand(
    graph: Graph, rules: PlacementRules, backends: Sequence[Candidate]
) -> dict[Op, Candidate]:
    """The backends of the ops that a rule is about.

    Raises:
        InputError: What a rule gives is no regular expression, or it matches no op.
    """
    by_name = {backend.name: backend for backend in backends}
    found: dict[Op, Candidate] = {}
    for pattern, name in rules:
        matched = [op for op in graph.ops if _matches(_compiled(pattern), op)]
        if not matched:
            fix = "circlet inspect --operators lists names and kinds; the whole of one must match"
            raise InputError("a rule places no operator", where=pattern, fix=fix)
        for op in matched:
            found.setdefault(op, by_name[name])
    return found


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(
            "a rule of placement is no regular expression",
            where=pattern,
            why=str(error),
            fix="write it as Python's module re reads it, and dots in names as \\.",
        ) from None


def _matches(pattern: re.Pattern[str], op: Op) -> bool:
    names = (op.label, *(source.name for source in op.origin.sources))
    return any(pattern.fullmatch(name) for name in names)
