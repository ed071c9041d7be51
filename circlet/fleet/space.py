"""What a search may choose: a backend for each group of a network, threads and level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from random import Random

from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import InputError
from circlet.options import Options
from circlet.pareto.groups import groups_of, sources_of
from circlet.placement.interface import Supported
from circlet.placement.problem import Configuration, Setting
from circlet.struct import Struct

_MOST_LISTED = 4096
_TRIES = 1000
Choices = dict[str, object]


class Space(Struct):
    """The configurations of a network on one class of machines.

    Attributes:
        groups: Names of source operators that are placed together, and the backends that take them.
        backends: Backends in order of preference.
        threads, levels: What a session may be given; the first of each is where a search starts.
    """

    groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    backends: tuple[str, ...]
    threads: tuple[int, ...]
    levels: tuple[str, ...]

    def parameters(self) -> dict[str, tuple[object, ...]]:
        """The choices by name, without those that leave nothing to choose."""
        groups = {f"unit{n}": choices for n, (_, choices) in enumerate(self.groups)}
        every: dict[str, tuple[object, ...]] = {
            **groups,
            "threads": self.threads,
            "level": self.levels,
        }
        return {name: choices for name, choices in every.items() if len(choices) > 1}

    def configuration(self, chosen: Mapping[str, object]) -> Configuration:
        """The configuration of one choice for each parameter."""
        placement = {
            source: str(chosen.get(f"unit{n}", choices[0]))
            for n, (sources, choices) in enumerate(self.groups)
            for source in sources
            if choices
        }
        threads = chosen.get("threads", self.threads[0])
        level = str(chosen.get("level", self.levels[0]))
        return Configuration(placement, Setting(threads=int(str(threads)), level=level))

    def starts(self) -> Iterator[Choices]:
        """Each backend by itself, wherever it takes an operator: what a mix is to beat."""
        usual: Choices = {name: choices[0] for name, choices in self.parameters().items()}
        for backend in self.backends:
            alone = {
                name: backend for name, choices in self.parameters().items() if backend in choices
            }
            yield {**usual, **alone}

    def untried(self, tried: set[tuple[object, ...]], seed: int) -> Choices | None:
        """A choice that is not among those tried, at random; None where none is left or found."""
        names, choices = [*self.parameters()], [*self.parameters().values()]
        random = Random(seed)
        if prod(map(len, choices)) <= _MOST_LISTED:
            left = [row for row in product(*choices) if row not in tried]
            return dict(zip(names, random.choice(left), strict=True)) if left else None
        drawn = (tuple(map(random.choice, choices)) for _ in range(_TRIES))
        found = list(islice((row for row in drawn if row not in tried), 1))
        return dict(zip(names, found[0], strict=True)) if found else None


def space_of(model: Path, options: Options, threads: Sequence[int], levels: Sequence[str]) -> Space:
    """The configurations of a network, over the backends of the options.

    Raises:
        InputError: There is nothing to choose from.
        CircletError: As `circlet.compiler.planning.plan`.
    """
    if not threads or not levels:
        fix = "give at least one number of threads and one level"
        raise InputError("a search has nothing to choose from", where="threads, levels", fix=fix)
    planned = [
        plan(Template.read(model, options), options._replace(backend_of=(), level=level))
        for level in levels
    ]
    names = groups_of([[row.op for row in each.placed] for each in planned])
    number_of = {source: number for number, group in enumerate(names) for source in group}
    refused: list[set[str]] = [set() for _ in names]
    for each in planned:
        for row in each.placed:
            group = number_of[sources_of(row.op)[0]]
            for compiler in each.compilers:
                if not isinstance(compiler.supports(row.op), Supported):
                    refused[group].add(compiler.name)
    takers = [tuple(n for n in options.backends if n not in out) for out in refused]
    groups = tuple(zip(names, takers, strict=True))
    return Space(groups, options.backends, tuple(threads), tuple(levels))
