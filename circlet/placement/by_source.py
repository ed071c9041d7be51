"""Placement by what operators are in the user's file: position, kind, or all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from circlet.errors import InputError
from circlet.ir import Graph, Model, Op
from circlet.options import Options
from circlet.placement.interface import Candidate

EVERY = "*"
_NO_WORDS: frozenset[str] = frozenset()
LOGGER = logging.getLogger(__name__)


def words_of_sources(model: Model) -> dict[int, frozenset[str]]:
    """What rules may call each source operator, by its id, of a model as it was read.

    These are its kind, "CUSTOM" for all custom operators, and its position in the first graph.
    """
    found: dict[int, frozenset[str]] = {}
    for number, graph in enumerate(model.graphs):
        for index, op in enumerate(graph.ops):
            words = {op.kind, op.label, *([str(index)] if number == 0 else ())}
            for source in op.origin.sources:
                found[source.id] = found.get(source.id, _NO_WORDS) | words
    return found


def chosen_by_source(
    graph: Graph,
    options: Options,
    words: Mapping[int, frozenset[str]],
    backends: Sequence[Candidate],
) -> dict[Op, Candidate]:
    """The backends of the ops that a rule of `options.backend_of_source` is about.

    An op that several source operators were joined into goes by the first rule about any of them.

    Raises:
        InputError: `strict`, and a rule is about a position that the file does not have.
    """
    _check_positions(options, words)
    by_name = {backend.name: backend for backend in backends}
    found: dict[Op, Candidate] = {}
    for op in graph.ops:
        called = {EVERY, op.kind, op.label}.union(
            *(words.get(source.id, _NO_WORDS) for source in op.origin.sources)
        )
        name = next((name for word, name in options.backend_of_source if word in called), None)
        if name is not None:
            found[op] = by_name[name]
    return found


def _check_positions(options: Options, words: Mapping[int, frozenset[str]]) -> None:
    known = _NO_WORDS.union(*words.values())
    for word, name in options.backend_of_source:
        if not word.isdigit() or word in known:
            continue
        what = "a rule places an operator that the file does not have"
        if options.strict:
            fix = "circlet dump lists the operators of the file, counted from 0"
            raise InputError(what, where=f"{word}={name}", fix=fix)
        LOGGER.warning("%s: %s=%s is left out", what, word, name)
