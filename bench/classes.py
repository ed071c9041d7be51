"""Classes of machines, by the instructions that kernels use, and what each is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

MANY_THREADS = 4
MANY_CPUS = 8


@dataclass(frozen=True)
class Bars:
    """The best peer's time over Circlet's: geometric means, and the least of any network."""

    fp32: float
    integer: float
    least: float

    def mean(self, kind: str) -> float:
        """The bar of the networks of a class: fp32, integer or hybrid."""
        return self.fp32 if kind == "fp32" else self.integer


@dataclass(frozen=True)
class MachineClass:
    """Machines whose figures may stand in one table.

    Attributes:
        slug: In names of files.
        feature: Which of a target's features tells the class.
        least_cpus: How many CPUs a machine of it has at least.
        few: The bars below `MANY_THREADS` threads.
        many: From there on.
    """

    slug: str
    name: str
    feature: str
    few: Bars
    many: Bars
    least_cpus: int = 1

    def bars(self, threads: int) -> Bars:
        """What a run on so many threads is held to."""
        return self.few if threads < MANY_THREADS else self.many


def _class(slug: str, name: str, feature: str, few: Bars, many: Bars | None = None) -> MachineClass:
    return MachineClass(slug, name, feature, few, many or few)


def _with_cores(few: MachineClass) -> MachineClass:
    """Machines of a class that can run many threads."""
    slug, name = f"{few.slug}-cores", f"{few.name}, {MANY_CPUS} CPUs and more"
    return replace(few, slug=slug, name=name, least_cpus=MANY_CPUS)


_AMX = Bars(1.5, 2.5, 0.9)
_WITH_AMX = _class("avx512-amx", "AVX-512 with AMX", "amx_int8", Bars(1.5, 3.0, 1.0), _AMX)
# The first whose feature a target has, and whose CPUs; any machine is of the last one.
CLASSES = (
    _with_cores(_WITH_AMX),
    _WITH_AMX,
    _class("avx512-vnni", "AVX-512 with VNNI", "avx512vnni", Bars(2.0, 3.6, 1.1)),
    _class("x86-64", "x86-64 without byte dot products", "x86_64", Bars(1.5, 1.6, 1.0)),
    _class("other", "other processors", "", Bars(1.2, 1.5, 0.9)),
)


def class_of(machine: Mapping[str, object]) -> MachineClass:
    """The class of a machine, by `bench.machine.facts`."""
    target, cpus = str(machine.get("isa", "")), int(str(machine.get("cpus", 1)))
    return next(one for one in CLASSES if one.feature in target and cpus >= one.least_cpus)
