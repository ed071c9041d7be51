"""Measuring and searching on many machines: `circlet fleet`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from circlet.errors import InputError
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.regular_files import open_regular, write_file

if TYPE_CHECKING:
    from circlet.fleet.cluster import Tls
    from circlet.fleet.fronts import Standing
    from circlet.fleet.search import Plan

_PACKAGES = ("distributed", "optuna", "sqlalchemy")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: the authority that all accept, and this process's certificate and key."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


NO_TLS_FILES = TlsFiles()


@dataclass(frozen=True)
class FleetSearchRequest:
    """What `circlet fleet search` is asked for.

    Attributes:
        model: The network.
        scheduler: The address of the scheduler.
        storage: The address of the data base.
        study: The name of the study, by which it is resumed.
        evaluations: How many configurations to measure on each class of machines.
        backends: Backends in order of preference; () for all that work on a machine.
        threads, levels: What sessions may be given.
        options: What all configurations have in common.
        rounds, seconds, memory: How a configuration is measured, as `EvaluationSettings` says.
        sampler, seed: What chooses configurations.
        heartbeat: Seconds between signs of life.
        trial_seconds: What a trial may take.
        patience: How long to wait for workers, in seconds.
        output: Where to write the answer as JSON; None for nowhere.
    """

    model: Path
    scheduler: str
    storage: str
    study: str
    evaluations: int
    backends: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    levels: tuple[str, ...] = ("O2",)
    options: Options = DEFAULT_OPTIONS
    rounds: int = 11
    seconds: float = 0.02
    memory: str = "process"
    sampler: str = "nsga2"
    seed: int = 0
    heartbeat: int = 10
    trial_seconds: float = 600.0
    patience: float = 60.0
    tls: TlsFiles = NO_TLS_FILES
    output: Path | None = None


@dataclass(frozen=True)
class FleetReport:
    """Where studies stand.

    Attributes:
        storage: Its address, without a password.
        studies: One for each name and class of machines, as `circlet.fleet.fronts.Standing` has it.
        output: The file that was written, if any.
    """

    storage: str
    studies: list[dict[str, object]] = field(default_factory=list)
    output: str = ""


def serve_fleet(
    host: str, port: int, tls: TlsFiles, *, insecure: bool, said: Callable[[str], None]
) -> None:
    """Run a scheduler until the process is told to end; raises as `circlet.fleet.cluster.serve`."""
    _check_installed()
    from circlet.fleet.cluster import serve

    serve(host, port, _tls(tls), insecure=insecure, said=said)


def work_in_fleet(
    scheduler: str, tls: TlsFiles, cores: tuple[int, ...], *, said: Callable[[str], None]
) -> None:
    """Run a worker until the process is told to end; raises as `circlet.fleet.cluster.work`."""
    _check_installed()
    from circlet.fleet.cluster import work

    work(scheduler, _tls(tls), cores, said=said)


def search_in_fleet(
    request: FleetSearchRequest, told: Callable[[str, int], None] = lambda name, count: None
) -> FleetReport:
    """Search on all machines of a fleet.

    Args:
        told: Is called after each answer with the study and how many configurations are evaluated.

    Raises:
        CircletError: As `circlet.fleet.search.Driver.run`, and where something cannot be reached.
    """
    _check_installed()
    with open_regular(request.model, "the model") as file:
        data = file.read()
    from circlet.fleet.cluster import connect
    from circlet.fleet.search import Driver
    from circlet.fleet.storage import open_storage

    with (
        open_storage(request.storage, request.heartbeat) as storage,
        connect(request.scheduler, _tls(request.tls)) as client,
    ):
        driver = Driver(client, storage, data, _plan(request))
        driver.told = lambda study: told(study.name, study.counts().evaluated)
        driver.run()
    return _written(request, fleet_status(request.storage, request.study))


def fleet_status(storage: str, study: str = "") -> FleetReport:
    """Where the studies of a storage stand, all of them or those of a name.

    Raises:
        InputError: It is no address of a storage.
        FleetError: It cannot be reached.
    """
    _check_installed()
    from circlet.fleet.fronts import standings
    from circlet.fleet.storage import open_storage, shown

    with open_storage(storage) as opened:
        found = standings(opened, study)
    return FleetReport(shown(storage), [_plain(each) for each in found])


def _plan(request: FleetSearchRequest) -> Plan:
    from circlet.fleet.search import Plan
    from circlet.pareto.settings import EvaluationSettings

    settings = EvaluationSettings(
        options=request.options,
        rounds=request.rounds,
        seconds=request.seconds,
        memory=request.memory,
    )
    return Plan(
        study=request.study,
        evaluations=request.evaluations,
        threads=request.threads,
        levels=request.levels,
        backends=request.backends,
        settings=settings,
        sampler=request.sampler,
        seed=request.seed,
        heartbeat_s=request.heartbeat,
        trial_seconds=request.trial_seconds,
        patience_s=request.patience,
    )


def _written(request: FleetSearchRequest, report: FleetReport) -> FleetReport:
    if request.output is None:
        return report
    text = json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"
    write_file(request.output, text.encode(), 0o644, "the fronts")
    return replace(report, output=str(request.output))


def _plain(standing: Standing) -> dict[str, object]:
    front = [{**point._asdict()} for point in standing.front]
    return {**standing._asdict(), "counts": standing.counts._asdict(), "front": front}


def _tls(files: TlsFiles) -> Tls:
    from circlet.fleet.cluster import Tls

    return Tls(files.ca, files.cert, files.key)


def _check_installed() -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(
            "packages that fleets need are not installed",
            where=", ".join(missing),
            fix="pip install 'circlet[fleet]'",
        )
