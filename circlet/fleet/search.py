"""The driver of a search: asks studies for trials, has workers carry them out, tells the answers.

The driver keeps nothing that the storage does not know, so that another one goes on where it ended.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, Future, wait
from optuna.storages import RDBStorage
from optuna.trial import Trial

from circlet.errors import CircletError, FileError, FleetError
from circlet.fleet.cluster import RESOURCE
from circlet.fleet.machine import Machine, this_machine
from circlet.fleet.models import send_model
from circlet.fleet.storage import quiet
from circlet.fleet.study import TrialStudy
from circlet.fleet.tasks import Answer, list_choices, measure
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Measurement
from circlet.struct import Struct

_NAP_S = 0.2
LOGGER = logging.getLogger(__name__)


class Plan(Struct):
    """What a search is to do on each class of machines.

    Attributes:
        study: Its name, by which it is resumed.
        evaluations: How many configurations are to be measured.
        threads, levels: What sessions may be given; () for one thread and all cores.
        backends: Backends in order of preference; () for all that work on a machine.
        settings: How configurations are measured.
        sampler, seed: What chooses them.
        heartbeat_s: How often the driver says that it is alive, in seconds.
        trial_seconds: What a trial may take before its worker is started anew.
        patience_s: How long to wait for the first worker, or for another where all are gone.
    """

    study: str
    evaluations: int
    threads: tuple[int, ...] = ()
    levels: tuple[str, ...] = ("O2",)
    backends: tuple[str, ...] = ()
    settings: EvaluationSettings = EvaluationSettings()
    sampler: str = "nsga2"
    seed: int = 0
    heartbeat_s: int = 10
    trial_seconds: float = 600.0
    patience_s: float = 60.0


@dataclass
class _Running:
    """A trial on its way."""

    study: TrialStudy
    trial: Trial
    configuration: Configuration
    started: float


@dataclass
class Driver:
    """One search over all classes of machines that have workers.

    Attributes:
        told: Is called after each answer, with the study.
    """

    client: Client
    storage: RDBStorage
    data: bytes
    plan: Plan
    told: Callable[[TrialStudy], None] = lambda study: None
    studies: dict[str, TrialStudy] = field(default_factory=dict)
    _running: dict[Future, _Running] = field(default_factory=dict)
    _key: str = ""
    _exhausted: set[str] = field(default_factory=set)
    _last_seen: float = 0.0

    def run(self) -> list[TrialStudy]:
        """Search until every class has its evaluations, or has nothing left to try.

        Raises:
            FleetError: No worker came, or the scheduler went away; a later search goes on.
            InputError: There is a study of that name, of something else.
            CircletError: The network cannot be placed, as `circlet.fleet.space.space_of`.
        """
        self._key = send_model(self.client, self.data)
        self._last_seen = time.monotonic()
        with self.client.as_current(), quiet():
            try:
                while not self._step():
                    pass
            finally:
                self._let_go()
        return list(self.studies.values())

    def _step(self) -> bool:
        """One round: who is there, what is lost, what comes next; whether all is done."""
        workers = self._workers()
        for fingerprint, addresses in workers.items():
            if fingerprint not in self.studies:
                self.studies[fingerprint] = self._opened(fingerprint, addresses[0])
        for fingerprint, addresses in workers.items():
            self._fill(fingerprint, len(addresses))
        self._collect()
        self._stop_late()
        return bool(workers) and not self._running and all(map(self._is_done, workers))

    def _workers(self) -> dict[str, list[str]]:
        """Addresses of workers by the class of their machines.

        Raises:
            FleetError: There has been none for too long, or the scheduler is gone.
        """
        if self.client.status != "running":
            raise FleetError("the scheduler is gone", where=str(self.client.scheduler))
        found: dict[str, list[str]] = {}
        workers: dict[str, dict[str, Any]] = self.client.scheduler_info(n_workers=-1)["workers"]
        for address, about in workers.items():
            for name in about["resources"]:
                if name.startswith(RESOURCE):
                    found.setdefault(name.removeprefix(RESOURCE), []).append(address)
        now = time.monotonic()
        if found:
            self._last_seen = now
        elif now - self._last_seen > self.plan.patience_s:
            fix = "start workers with circlet fleet work"
            where = f"for {self.plan.patience_s:g} s"
            raise FleetError("no worker is there", where=where, fix=fix)
        return found

    def _opened(self, fingerprint: str, address: str) -> TrialStudy:
        plan = self.plan
        machine = self._on(fingerprint, this_machine)
        assert isinstance(machine, Machine)
        backends = tuple(name for name in plan.backends or machine.backends)
        cores = int(machine.facts["cores"])
        threads = plan.threads or tuple(dict.fromkeys((1, cores)))
        options = plan.settings.options._replace(backends=backends)
        space = self._on(fingerprint, list_choices, self._key, options, threads, plan.levels)
        LOGGER.info("machines of class %s: %s", fingerprint, address)
        return TrialStudy(
            self.storage, plan.study, machine, self._key, space, plan.sampler, plan.seed
        )

    def _on(self, fingerprint: str, function: Callable[..., object], *arguments: object) -> Any:
        """What a function answers on a worker of a class."""
        resources = {RESOURCE + fingerprint: 1}
        future = self.client.submit(function, *arguments, pure=False, resources=resources)
        try:
            return future.result()
        except CircletError:
            raise
        except Exception as error:  # whatever ended the worker, or its connection
            why = f"{type(error).__name__}: {error}"
            raise FleetError(
                "a worker cannot say what it is", where=fingerprint, why=why
            ) from error

    def _is_done(self, fingerprint: str) -> bool:
        evaluated = self.studies[fingerprint].counts().evaluated
        return evaluated >= self.plan.evaluations or fingerprint in self._exhausted

    def _fill(self, fingerprint: str, workers: int) -> None:
        """Give each worker of a class one trial, as long as there is something to measure."""
        study = self.studies[fingerprint]
        own = [each.trial for each in self._running.values() if each.study is study]
        study.beat(own)
        study.recover({trial.number for trial in own})
        counts = study.counts()
        room = min(workers, self.plan.evaluations - counts.evaluated) - len(own)
        for _ in range(room):
            asked = study.ask()
            if asked is None:
                if not own and not counts.running:
                    self._exhausted.add(fingerprint)
                return
            self._submit(_Running(study, *asked, time.monotonic()))
            own.append(asked[0])

    def _submit(self, each: _Running) -> None:
        settings = self.plan.settings
        backends = each.study.space.backends
        settings = settings._replace(options=settings.options._replace(backends=backends))
        future = self.client.submit(
            measure,
            self._key,
            each.configuration,
            settings,
            pure=False,
            resources={RESOURCE + each.study.machine.fingerprint: 1},
        )
        self._running[future] = each

    def _collect(self) -> None:
        """Wait for an answer, no longer than until the next heartbeat, and tell the studies."""
        if not self._running:  # nobody is there, or others carry out what is left
            time.sleep(min(_NAP_S, self.plan.heartbeat_s))
            return
        try:
            done = wait(
                list(self._running),
                timeout=self.plan.heartbeat_s / 2,
                return_when="FIRST_COMPLETED",
            ).done
        except TimeoutError:
            return
        except CancelledError:
            done = {future for future in self._running if future.done()}
        for future in done:
            self._take(future, self._running.pop(future))

    def _take(self, future: Future, each: _Running) -> None:
        try:
            answer: Answer = future.result()
        except FileError:  # a worker that came when the scheduler had forgotten the network
            self._key = send_model(self.client, self.data)
            self._submit(each)
            return
        except CircletError:
            each.study.lose(each.trial)
            raise
        except CancelledError:  # by the scheduler: nothing is known of the configuration
            each.study.lose(each.trial)
            return
        except Exception as error:  # whatever ended its workers, one after the other
            why = f"it ended its worker: {type(error).__name__}: {error}"
            answer = Answer(_failure(why), each.study.machine)
        if answer.machine.fingerprint != each.study.machine.fingerprint:
            LOGGER.warning("%s is another machine now: a trial is repeated", answer.machine.host)
            each.study.lose(each.trial)
            return
        each.study.tell(each.trial, answer.measurement, answer.machine)
        self.told(each.study)

    def _stop_late(self) -> None:
        """Give up trials that take too long, and start their workers anew."""
        now = time.monotonic()
        late = [f for f, e in self._running.items() if now - e.started > self.plan.trial_seconds]
        if not late:
            return
        busy: dict[str, Any] = self.client.processing()
        keys = {future.key for future in late}
        stuck = [address for address, tasks in busy.items() if keys & set(tasks)]
        for future in late:
            each = self._running.pop(future)
            future.cancel()
            why = f"it took longer than {self.plan.trial_seconds:g} s"
            each.study.tell(each.trial, _failure(why, "E-TIMEOUT"), each.study.machine)
        if stuck:
            self.client.restart_workers(stuck, raise_for_error=False)

    def _let_go(self) -> None:
        """Have whoever comes next measure at once what this driver did not finish."""
        for future, each in self._running.items():
            future.cancel()
            each.study.lose(each.trial)
        self._running.clear()


def _failure(why: str, code: str = "E-BACKEND") -> Measurement:
    return Measurement(math.inf, math.inf, error=why, code=code)
