"""A study: the trials of one network on one class of machines, in a storage that outlives us all.

Whoever carries out a trial says so by heartbeats. A trial of which none was heard for a while is
lost: it is marked as failed, and its choices are asked for again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from circlet.errors import InputError
from circlet.fleet.machine import Machine
from circlet.fleet.space import Choices, Space
from circlet.fleet.storage import quiet
from circlet.placement.problem import Configuration, Measurement
from circlet.struct import Struct

SAMPLERS = ("nsga2", "tpe", "random")
SEPARATOR = "@"
ABOUT = "about"  # what a study is of, among its attributes
_MOST_RETRIES = 3
_MOST_COPIES = 3
_POPULATION = 20


class Counts(Struct):
    """The trials of a study.

    Attributes:
        evaluated: Configurations that were measured, those that failed in it included.
        failed: Those that cannot be compiled, do not run or answer wrongly.
        running: Trials that somebody carries out, or did when last heard of.
        waiting: Trials that are to be carried out next.
        lost: Trials whose driver or storage went away in the midst.
        retried: Trials that took the place of lost ones.
    """

    evaluated: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    lost: int = 0
    retried: int = 0


class TrialStudy:
    """One study, opened or made; many drivers may work at one.

    Args:
        name: What a user calls it; the class of machines is added.
        machine: One machine of the class.
        model: The hash of the network.
        space: What may be chosen.

    Raises:
        InputError: There is a study of that name, of something else.
    """

    def __init__(
        self,
        storage: RDBStorage,
        name: str,
        machine: Machine,
        model: str,
        space: Space,
        sampler: str,
        seed: int,
    ) -> None:
        self.space, self.machine, self._seed = space, machine, seed
        self._storage = storage
        self.name = f"{name}{SEPARATOR}{machine.fingerprint}"
        self._seen: set[int] = set()
        self._parameters = space.parameters()
        self._distributions: dict[str, BaseDistribution] = {
            key: CategoricalDistribution(choices) for key, choices in self._parameters.items()
        }
        with quiet():
            self._study: Study = optuna.create_study(
                storage=storage,
                study_name=self.name,
                directions=["minimize", "minimize"],
                load_if_exists=True,
            )
        about = {"model": model, "space": _plain(space), "machine": dict(machine.facts)}
        self._settle(about)
        self._study.sampler = _sampler(sampler, seed + len(self._trials()))
        for choices in space.starts():
            self._study.enqueue_trial(choices, skip_if_exists=True)

    def ask(self) -> tuple[Trial, Configuration] | None:
        """A trial to be carried out, and its configuration; None where none is left to try.

        Trials of what was measured before, or is being measured, take its answer and are no
        evaluations.
        """
        for _ in range(_MOST_COPIES):
            trial = self._study.ask(self._distributions)
            known = self._like(trial)
            if known is None:
                return self._begun(trial)
            self._copy(trial, known)
        tried = {self._key(t.params) for t in self._trials() if not _is_lost(t)}
        choices = self.space.untried(tried, self._seed + len(tried))
        if choices is None:
            return None
        self._study.enqueue_trial(choices)
        return self._begun(self._study.ask(self._distributions))

    def tell(self, trial: Trial, measurement: Measurement, machine: Machine) -> None:
        """Keep what a trial showed; a configuration that failed is worse than any other."""
        trial.set_user_attr("host", machine.host)
        trial.set_user_attr("fingerprint", machine.fingerprint)
        trial.set_user_attr("measurement", _finite(measurement._asdict()))
        self._study.tell(trial, measurement.point, skip_if_finished=True)

    def lose(self, trial: Trial) -> None:
        """Say that a trial will not be carried out any more."""
        self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def beat(self, trials: Iterable[Trial]) -> None:
        """Say of trials that they are still carried out."""
        for trial in trials:
            self._storage.record_heartbeat(trial._trial_id)

    def recover(self, own: Collection[int]) -> None:
        """Fail trials that nobody carries out any more, and ask for their choices again.

        A trial that ended before its first heartbeat is given one, and a period of grace.

        Args:
            own: Numbers of trials that are carried out for this object.
        """
        with quiet():
            optuna.storages.fail_stale_trials(self._study)
        trials = self._trials()
        for trial in trials:
            is_foreign = trial.state == TrialState.RUNNING and trial.number not in own
            if is_foreign and trial.number not in self._seen:
                self._seen.add(trial.number)
                self._storage.record_heartbeat(trial._trial_id)
        retried = {trial.user_attrs.get("retry_of") for trial in trials}
        for trial in trials:
            attempts = int(trial.user_attrs.get("attempt", 0))
            if _is_lost(trial) and trial.number not in retried and attempts < _MOST_RETRIES:
                again = {"retry_of": trial.number, "attempt": attempts + 1}
                self._study.enqueue_trial(trial.params, user_attrs=again)

    def counts(self) -> Counts:
        """How far the study is."""
        return counts_of(self._trials())

    def evaluated(self) -> list[FrozenTrial]:
        """The trials that measured a configuration, in order."""
        return [trial for trial in self._trials() if is_evaluated(trial)]

    def configuration(self, trial: FrozenTrial) -> Configuration:
        """What a trial measured."""
        return self.space.configuration(trial.params)

    def _begun(self, trial: Trial) -> tuple[Trial, Configuration]:
        self._storage.record_heartbeat(trial._trial_id)
        return trial, self.space.configuration(trial.params)

    def _like(self, trial: Trial) -> FrozenTrial | None:
        key = self._key(trial.params)
        for known in self._trials():
            is_other = known.number != trial.number and "copy_of" not in known.user_attrs
            is_of_use = known.state in (TrialState.COMPLETE, TrialState.RUNNING)
            if is_other and is_of_use and self._key(known.params) == key:
                return known
        return None

    def _copy(self, trial: Trial, known: FrozenTrial) -> None:
        trial.set_user_attr("copy_of", known.number)
        if known.state == TrialState.COMPLETE:
            self._study.tell(trial, known.values)
        else:
            self._study.tell(trial, state=TrialState.FAIL)

    def _key(self, params: Choices) -> tuple[object, ...]:
        return tuple(params.get(name) for name in self._parameters)

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _settle(self, about: dict[str, object]) -> None:
        found = self._study.user_attrs.get(ABOUT)
        if found is None:
            self._study.set_user_attr(ABOUT, about)
        elif found != about:
            other = [key for key in about if found.get(key) != about[key]]
            raise InputError(
                "there is a study of this name, of something else",
                where=self.name,
                why=f"its {' and '.join(other)} is another",
                fix="give another --study, or the same network and choices",
            )


def counts_of(trials: Iterable[FrozenTrial]) -> Counts:
    """How many trials are in which state."""
    known = list(trials)
    states = [trial.state for trial in known]
    return Counts(
        sum(map(is_evaluated, known)),
        sum(is_evaluated(t) and not math.isfinite(t.values[0]) for t in known),
        states.count(TrialState.RUNNING),
        states.count(TrialState.WAITING),
        sum(map(_is_lost, known)),
        sum("retry_of" in trial.user_attrs for trial in known),
    )


def is_evaluated(trial: FrozenTrial) -> bool:
    """Whether a trial measured a configuration, rather than having taken another's answer."""
    return trial.state == TrialState.COMPLETE and "copy_of" not in trial.user_attrs


def _is_lost(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.FAIL and "copy_of" not in trial.user_attrs


def _sampler(name: str, seed: int) -> BaseSampler:
    if name == "nsga2":
        return NSGAIISampler(population_size=_POPULATION, seed=seed)
    if name == "tpe":
        return TPESampler(seed=seed, multivariate=False, constant_liar=True)
    if name == "random":
        return RandomSampler(seed=seed)
    fix = f"choose among {', '.join(SAMPLERS)}"
    raise InputError("there is no such sampler", where=name, fix=fix)


def _plain(space: Space) -> object:
    fields = space._asdict()
    return json.loads(json.dumps({"units": fields.pop("groups"), **fields}))


def _finite(found: dict[str, object]) -> dict[str, object]:
    """Plain data with None for infinities, which JSON does not know."""
    is_odd = {k: isinstance(v, float) and not math.isfinite(v) for k, v in found.items()}
    return {key: None if is_odd[key] else value for key, value in found.items()}
