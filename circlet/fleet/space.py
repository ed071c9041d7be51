"""What a search may choose: a backend for each unit of a network, threads and level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from random import Random

from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import InputError
from circlet.ir import Op
from circlet.options import Options
from circlet.placement.interface import Supported
from circlet.placement.problem import Configuration, Setting
from circlet.struct import Struct

_MOST_LISTED = 4096
_TRIES = 1000
Choices = dict[str, object]


class Space(Struct):
    """The configurations of a network on one class of machines.

    Attributes:
        units: Names of source operators that are placed together, and the backends that take them.
        backends: Backends in order of preference.
        threads, levels: What a session may be given; the first of each is where a search starts.
    """

    units: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    backends: tuple[str, ...]
    threads: tuple[int, ...]
    levels: tuple[str, ...]

    def parameters(self) -> dict[str, tuple[object, ...]]:
        """The choices by name, without those that leave nothing to choose."""
        units = {f"unit{n}": choices for n, (_, choices) in enumerate(self.units)}
        every: dict[str, tuple[object, ...]] = {
            **units,
            "threads": self.threads,
            "level": self.levels,
        }
        return {name: choices for name, choices in every.items() if len(choices) > 1}

    def configuration(self, chosen: Mapping[str, object]) -> Configuration:
        """The configuration of one choice for each parameter."""
        placement = {
            source: str(chosen.get(f"unit{n}", choices[0]))
            for n, (sources, choices) in enumerate(self.units)
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
    options = options._replace(backend_of=(), level=levels[0])
    planned = plan(Template.read(model, options), options)
    groups = _joined([row.op for row in planned.placed])
    units = []
    for ops in groups:
        sources = {source.name: None for op in ops for source in op.origin.sources}
        takers = [
            compiler.name
            for compiler in planned.compilers
            if all(isinstance(compiler.supports(op), Supported) for op in ops)
        ]
        units.append((tuple(sources), tuple(takers)))
    return Space(tuple(units), options.backends, tuple(threads), tuple(levels))


def _joined(ops: Sequence[Op]) -> list[list[Op]]:
    """Ops in groups that share no source operator, in order."""
    groups: list[list[Op]] = []
    home: dict[str, list[Op]] = {}
    for op in ops:
        names = [source.name for source in op.origin.sources]
        met = list({id(home[name]): home[name] for name in names if name in home}.values())
        group = met[0] if met else []
        if not met:
            groups.append(group)
        for other in met[1:]:
            group += other
            groups[:] = [each for each in groups if each is not other]
        group.append(op)
        known = (source.name for each in group for source in each.origin.sources)
        home.update(dict.fromkeys(known, group))
    return groups
