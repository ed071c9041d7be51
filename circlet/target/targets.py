"""Targets: an architecture plus an explicit list of CPU features."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from circlet.errors import TargetError
from circlet.target.features import (
    FEATURES,
    closure,
    host_features,
    minimal,
    needed_words,
)
from circlet.target.host import host_architecture

_BASELINE = {"x86_64": ("v3",), "aarch64": ("neon",), "armv7": ("neon",), "riscv64": ()}


class Target(NamedTuple):
    """An architecture and the sorted features that code may use, implied ones left out."""

    arch: str
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, arch: str, features: Iterable[str] = ()) -> "Target":
        """The target in canonical form: known names, sorted, without implied features."""
        if arch not in FEATURES:
            known = ", ".join(FEATURES)
            raise TargetError(f"no code is generated for {arch!r}", why=f"known: {known}")
        wanted = tuple(features)
        unknown = [name for name in wanted if name not in FEATURES[arch]]
        if unknown:
            raise TargetError(
                f"unknown CPU feature {', '.join(map(repr, unknown))} of {arch}",
                fix=f"use names among: {', '.join(FEATURES[arch])}",
            )
        return cls(arch, minimal(arch, closure(arch, wanted)))

    @property
    def all_features(self) -> frozenset[str]:
        """The features with all that they imply."""
        return _all_features(self)

    @property
    def level(self) -> str:
        """The psABI level (`v2`, `v3`, `v4`) that the list contains, or nothing."""
        levels = [name for name in self.all_features if FEATURES[self.arch][name].level]
        return max(levels, default="")

    @property
    def extra_features(self) -> tuple[str, ...]:
        """The features beyond the level, sorted, implied ones left out."""
        within = closure(self.arch, (self.level,)) if self.level else frozenset()
        return minimal(self.arch, self.all_features - within)

    @property
    def needs(self) -> list[str]:
        """The architecture and the system's words for the features."""
        return needed_words(self.arch, self.features)

    def has(self, feature: str) -> bool:
        """Whether code for this target may use the feature."""
        return feature in self.all_features

    def __str__(self) -> str:
        base = f"{self.arch}_{self.level}" if self.level else self.arch
        return "+".join((base, *self.extra_features))


@lru_cache(maxsize=64)
def _all_features(target: Target) -> frozenset[str]:
    return closure(target.arch, target.features)


def parse_target(text: str) -> Target:
    """The target of one name: `native`, `baseline`, `generic`, or `arch+feature+feature`."""
    name = text.strip().lower()
    arch = host_architecture()
    if name == "native":
        return native_target()
    if name == "baseline":
        return Target.of(arch, _BASELINE.get(arch, ()))
    if name == "generic":
        return Target.of(arch)
    head, *features = name.replace("-", "_").split("+")
    if head in FEATURES:
        return Target.of(head, features)
    base, _, level = head.rpartition("_")
    if base not in FEATURES:
        raise TargetError(
            f"unknown target {text[:80]!r}",
            fix="use native, baseline, generic, or an architecture with features: "
            + ", ".join(f"{arch}+{next(iter(rows))}" for arch, rows in FEATURES.items()),
        )
    return Target.of(base, [level, *features])


def parse_targets(text: str) -> tuple[Target, ...]:
    """The distinct targets of a comma-separated list, in its order."""
    return tuple(dict.fromkeys(parse_target(part) for part in text.split(",") if part.strip()))


def native_target() -> Target:
    """This CPU's target, resolved to an explicit list."""
    return Target.of(host_architecture(), host_features())


def missing_on_host(target: Target) -> tuple[str, ...]:
    """What the target needs and this machine lacks: the architecture, or features by name."""
    if target.arch != host_architecture():
        return (f"architecture {target.arch}",)
    return minimal(target.arch, target.all_features - host_features())


def unfit_for_host(targets: Iterable[Target], where: str = "") -> TargetError:
    """The error of code for targets none of which this machine runs: what is missing for each."""
    lacks = "; ".join(f"{target} needs {', '.join(missing_on_host(target))}" for target in targets)
    return TargetError(
        "this CPU cannot run the code",
        where=where,
        why=lacks or "there is no code for any target",
        fix=f"compile for this CPU, {native_target()}, or for `baseline` or `generic`; "
        "`circlet compile --target` makes artifacts for other machines",
    )
