"""What a storage knows: its studies, how far they are, and the front of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial

from circlet.fleet.space import Space
from circlet.fleet.study import ABOUT, SEPARATOR, Counts, counts_of, is_evaluated
from circlet.struct import Struct


class Point(Struct):
    """One configuration of a front.

    Attributes:
        trial: Its number in the study.
        host: The machine that measured it.
        time_ns, memory_bytes: What was measured.
        placement: A backend for each source operator.
        setting: Threads, level and the like.
    """

    trial: int
    host: str
    time_ns: float
    memory_bytes: float
    placement: Mapping[str, str]
    setting: Mapping[str, object]


class Standing(Struct):
    """Where a study stands.

    Attributes:
        name: What the user called it.
        fingerprint, facts: The class of machines.
        model: The hash of the network.
        counts: Trials by state.
        front: The configurations that no other beats in both time and memory, fastest first.
    """

    name: str
    fingerprint: str
    facts: Mapping[str, str]
    model: str
    counts: Counts
    front: tuple[Point, ...]


def standings(storage: RDBStorage, name: str = "") -> list[Standing]:
    """Where the studies of a storage stand, all of them or those of a name."""
    found = []
    for study in storage.get_all_studies():
        called, _, fingerprint = study.study_name.rpartition(SEPARATOR)
        about = study.user_attrs.get(ABOUT)
        if about is None or (name and called != name):
            continue
        trials = storage.get_all_trials(study._study_id, deepcopy=False)
        found.append(_standing(called, fingerprint, about, trials))
    return sorted(found, key=lambda each: (each.name, each.fingerprint))


def _standing(
    name: str, fingerprint: str, about: Mapping[str, Any], trials: Sequence[FrozenTrial]
) -> Standing:
    space = _space(about["space"])
    front = tuple(_point(trial, space) for trial in front_of(filter(is_evaluated, trials)))
    counts = counts_of(trials)
    return Standing(name, fingerprint, about["machine"], about["model"], counts, front)


def front_of(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that no other beats in one value without losing in the other, fastest first."""
    found: list[FrozenTrial] = []
    for trial in sorted(trials, key=lambda each: (*each.values, each.number)):
        is_less = not found or trial.values[1] < found[-1].values[1]
        if is_less and math.isfinite(trial.values[0]):
            found.append(trial)
    return found


def _point(trial: FrozenTrial, space: Space) -> Point:
    chosen = space.configuration(trial.params)
    time_ns, memory_bytes = trial.values
    host = str(trial.user_attrs.get("host", ""))
    setting = chosen.setting._asdict()
    return Point(trial.number, host, time_ns, memory_bytes, dict(chosen.placement), setting)


def _space(about: Mapping[str, Any]) -> Space:
    groups = tuple((tuple(sources), tuple(choices)) for sources, choices in about["units"])
    return Space(groups, tuple(about["backends"]), tuple(about["threads"]), tuple(about["levels"]))
