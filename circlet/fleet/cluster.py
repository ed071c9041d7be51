"""The processes of a fleet: a scheduler, workers, and connections to them, by dask.distributed."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Collection, Coroutine
from ipaddress import ip_address
from typing import Any

import dask
from distributed import Client, Nanny, Scheduler
from distributed.security import Security

from circlet.errors import FleetError, InputError
from circlet.fleet.machine import this_machine
from circlet.regular_files import StrPath, open_regular
from circlet.struct import Struct
from circlet.target.threads import usable_cores

RESOURCE = "circlet-"
_HTTP = "127.0.0.1:0"  # where dask answers whether a process is well, to nobody outside
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 2,  # workers that one trial may end
    "distributed.scheduler.http.routes": ["distributed.http.health"],
    "distributed.worker.http.routes": ["distributed.http.health"],
}


class Tls(Struct):
    """The PEM files by which the processes of a fleet know and trust each other; none for none.

    Attributes:
        ca: The certificate authority that all of them accept.
        cert, key: The certificate of this process, and its key.
    """

    ca: StrPath | None = None
    cert: StrPath | None = None
    key: StrPath | None = None

    def security(self) -> Security:
        """As dask takes it.

        Raises:
            InputError: Some of the three are given, not all.
            FileError: One of them cannot be read.
        """
        given = [self.ca, self.cert, self.key]
        if not any(given):
            return Security()
        if not all(given):
            fix = "give --tls-ca, --tls-cert and --tls-key together, or none"
            raise InputError("TLS needs three files", where="TLS", fix=fix)
        for path in given:
            open_regular(path or "", "a file of TLS").close()
        files = {"tls_ca_file": os.fspath(self.ca or "")}
        for role in ("client", "scheduler", "worker"):
            files[f"tls_{role}_cert"] = os.fspath(self.cert or "")
            files[f"tls_{role}_key"] = os.fspath(self.key or "")
        return Security(require_encryption=True, **files)


NO_TLS = Tls()
_FAILURES = (OSError, ValueError, TypeError, TimeoutError)  # TypeError for tls:// without files
Said = Callable[[str], None]


def serve(host: str, port: int, tls: Tls, *, insecure: bool = False, said: Said) -> None:
    """Run a scheduler until the process is told to end; `said` is told its address.

    Raises:
        InputError: Others could reach it, and nothing says who may.
        FleetError: It cannot listen there.
    """
    _check_reach(host, tls, insecure=insecure)
    security = tls.security()

    async def scheduled() -> None:
        scheme = "tls" if tls.ca else "tcp"
        async with Scheduler(
            host=host,
            port=port,
            protocol=scheme,
            security=security,
            dashboard=False,
            dashboard_address=_HTTP,
        ) as scheduler:
            said(scheduler.address)
            await _ended(scheduler.finished)

    _run(scheduled, f"{host}:{port}")


def work(scheduler: str, tls: Tls, cores: Collection[int] = (), *, said: Said) -> None:
    """Run a worker, which carries out one trial at a time, until the process is told to end.

    Args:
        cores: Numbers of cores that it and its threads are bound to; none for all that may be used.
        said: Is told the worker's address.

    Raises:
        InputError: A core may not be used.
        FleetError: The scheduler cannot be reached.
    """
    _bind(cores)
    security = tls.security()
    machine = this_machine()

    async def worked() -> None:
        async with Nanny(
            scheduler,
            nthreads=1,
            resources={RESOURCE + machine.fingerprint: 1},
            memory_limit=0,
            security=security,
            death_timeout=60,
            dashboard=False,
            dashboard_address=_HTTP,
            silence_logs=logging.WARNING,
        ) as nanny:
            said(nanny.worker_address)
            await _ended(nanny.finished)

    _run(worked, scheduler)


class _Client(Client):  # type: ignore[misc]
    """A client that, where it cannot connect, closes at once.

    The base class leaves that to the garbage collector. What it calls waits for a lock, which the
    thread that it interrupts may wait for: the loop of the next client then does not start.
    """

    def start(self, **options: Any) -> None:
        try:
            super().start(**options)
        except BaseException:
            self.close()
            self._loop_runner.stop()
            raise


def connect(scheduler: str, tls: Tls, seconds: float = 20) -> Client:
    """A connection to a scheduler.

    Raises:
        FleetError: It cannot be reached.
    """
    logging.getLogger("distributed").setLevel(logging.WARNING)
    try:
        return _Client(scheduler, security=tls.security(), timeout=seconds, set_as_default=False)
    except _FAILURES as error:
        raise _unreachable(scheduler, error) from error


def _unreachable(scheduler: str, error: Exception) -> FleetError:
    return FleetError(
        "a scheduler cannot be reached",
        where=scheduler,
        why=str(error) or type(error).__name__,
        fix="start one with circlet fleet serve, and give its address and certificates",
    )


def _run(main: Callable[[], Coroutine[Any, Any, object]], where: str) -> None:
    logging.getLogger("distributed").setLevel(logging.WARNING)
    try:
        with dask.config.set(_SETTINGS):
            asyncio.run(main())
    except _FAILURES as error:
        raise _unreachable(where, error) from error


async def _ended(finished: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Wait until it ends, or the process is told to."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    waiting = [asyncio.ensure_future(finished()), asyncio.ensure_future(told.wait())]
    _, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in rest:
        each.cancel()


def _check_reach(host: str, tls: Tls, *, insecure: bool) -> None:
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not (is_local or tls.ca or insecure):
        raise InputError(
            "anyone who reaches a scheduler may run programs on its workers",
            where=f"host {host}",
            fix="give --tls-ca, --tls-cert and --tls-key, or --insecure in a network of your own",
        )


def _bind(cores: Collection[int]) -> None:
    if not cores:
        return
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        may = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        where, why = f"cores {','.join(map(str, cores))}", error.strerror
        fix = f"choose among {may}, of which this process may use {usable_cores()}"
        raise InputError("a core may not be used", where=where, why=why or "", fix=fix) from error
