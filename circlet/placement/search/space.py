"""What a search goes over: a backend for each gene, and a setting for the network as a whole.

A gene is a group, or all groups of one kind of operator where placements are to be coarse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from circlet.placement.problem import Configuration, Problem
from circlet.placement.search.exact import QUICK_EFFORT, Effort, exact_front
from circlet.placement.search.front import non_dominated
from circlet.placement.search.objective import Objective

Genome = tuple[int, ...]
"""The number of the setting, then of a backend for each gene."""

_ENUMERATED = 20_000


@dataclass(frozen=True)
class Space:
    """Problems of one network at several settings, over the same groups and backends.

    Attributes:
        problems: One for each setting.
        genes: The groups of each.
    """

    problems: tuple[Problem, ...]
    genes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problems: Sequence[Problem], by: str = "operator") -> Space:
        """The space of some problems; genes are groups, or kinds of these where `by` is "kind"."""
        groups = problems[0].groups
        if by == "operator":
            return cls(tuple(problems), tuple((number,) for number in range(len(groups))))
        kinds: dict[str, list[int]] = {}
        for number, group in enumerate(groups):
            kinds.setdefault(group.kind, []).append(number)
        return cls(tuple(problems), tuple(map(tuple, kinds.values())))

    @property
    def is_fine(self) -> bool:
        """Whether every group is placed by itself."""
        return all(len(gene) == 1 for gene in self.genes)

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends."""
        return self.problems[0].backends

    def allowed(self, setting: int) -> list[list[int]]:
        """For each gene the backends that take any of its groups."""
        return self._allowed[setting]

    @cached_property
    def _allowed(self) -> list[list[list[int]]]:
        return [
            [np.flatnonzero(table[list(gene)].any(0)).tolist() for gene in self.genes]
            for table in (problem.allowed for problem in self.problems)
        ]

    @property
    def size(self) -> int:
        """How many genomes there are."""
        return sum(self.size_of(setting) for setting in range(len(self.problems)))

    def size_of(self, setting: int) -> int:
        """How many genomes have a setting."""
        return prod(map(len, self.allowed(setting)))

    def genome(self, number: int) -> Genome:
        """The genome of a number below `size`: settings in order, the first gene varies fastest."""
        for setting in range(len(self.problems)):
            size = self.size_of(setting)
            if number < size:
                genes = []
                for allowed in self.allowed(setting):
                    number, digit = divmod(number, len(allowed))
                    genes.append(allowed[digit])
                return (setting, *genes)
            number -= size
        raise IndexError(number)

    def genomes(self) -> Iterator[Genome]:
        """All genomes, in the order of their numbers."""
        return map(self.genome, range(self.size))

    def mended(self, genome: Sequence[int]) -> Genome:
        """A genome whose setting and backends exist; where one does not, the first that does."""
        setting = min(max(int(genome[0]), 0), len(self.problems) - 1)
        pairs = zip(genome[1:], self.allowed(setting), strict=True)
        return (setting, *(int(g) if int(g) in allowed else allowed[0] for g, allowed in pairs))

    def choice(self, genome: Genome) -> np.ndarray:
        """(G,) backends of groups; the first one that takes it where that of its gene does not."""
        return self.choices([genome])[0]

    def choices(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, G) backends of groups, of genomes of one setting."""
        allowed = self.problems[genomes[0][0]].allowed
        wanted = np.array([genome[1:] for genome in genomes], np.int64)[:, self._gene_of]
        takes = allowed[np.arange(len(allowed)), wanted]
        return np.where(takes, wanted, allowed.argmax(1))

    @cached_property
    def _gene_of(self) -> np.ndarray:
        """(G,) the gene of each group."""
        found = np.empty(len(self.problems[0].groups), np.int64)
        for number, gene in enumerate(self.genes):
            found[list(gene)] = number
        return found

    def configuration(self, genome: Genome) -> Configuration:
        """What a genome stands for."""
        return self.problems[genome[0]].configuration(self.choice(genome))

    def genome_of(self, setting: int, choice: np.ndarray) -> Genome:
        """The genome of (G,) backends; of a gene's first group where they differ."""
        return self.mended((setting, *(int(choice[gene[0]]) for gene in self.genes)))

    def predicted(self, genomes: Sequence[Genome]) -> np.ndarray:
        """(N, 2) time and memory on the model."""
        points = np.empty((len(genomes), 2))
        settings = np.array([genome[0] for genome in genomes], np.int64)
        for setting in np.unique(settings):
            mine = np.flatnonzero(settings == setting)
            choices = self.choices([genomes[i] for i in mine.tolist()])
            points[mine] = Objective(self.problems[setting]).points(choices)
        return points

    def single_backends(self) -> list[Genome]:
        """For each setting and backend: on it what it takes, the rest on the first that does."""
        found = [
            self.mended((setting, *[backend] * len(self.genes)))
            for setting in range(len(self.problems))
            for backend in range(len(self.backends))
        ]
        return list(dict.fromkeys(found))

    def neighbours(self, genome: Genome) -> list[Genome]:
        """Genomes that differ in one gene, or in the setting."""
        found = [
            (*genome[: place + 1], backend, *genome[place + 2 :])
            for place, allowed in enumerate(self.allowed(genome[0]))
            for backend in allowed
            if backend != genome[place + 1]
        ]
        others = [s for s in range(len(self.problems)) if s != genome[0]]
        return found + [self.mended((setting, *genome[1:])) for setting in others]

    @cached_property
    def likely_front(self) -> tuple[list[Genome], bool]:
        """The front of the model as far as little effort finds it, and whether it is exact."""
        return model_front(self)

    def random(self, rng: np.random.Generator) -> Genome:
        """A genome, each with the same probability within its setting."""
        setting = int(rng.integers(len(self.problems)))
        genes = (int(allowed[rng.integers(len(allowed))]) for allowed in self.allowed(setting))
        return (setting, *genes)


def model_front(space: Space, effort: Effort = QUICK_EFFORT) -> tuple[list[Genome], bool]:
    """Genomes that no other beats on the model, by rising time, and whether these are all."""
    found: list[Genome] = []
    exact = True
    for setting, problem in enumerate(space.problems):
        if space.is_fine or space.size_of(setting) > _ENUMERATED:
            front = exact_front(problem, effort)
            found += [space.genome_of(setting, choice) for choice in front.choices]
            exact &= front.is_exact and space.is_fine
        else:
            start = sum(map(space.size_of, range(setting)))
            found += [space.genome(start + n) for n in range(space.size_of(setting))]
    found = list(dict.fromkeys(found))
    return [found[i] for i in non_dominated(space.predicted(found))], exact
