"""The data base of studies, by optuna: on PostgreSQL for many machines, on SQLite for one."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError

from circlet.errors import FleetError, InputError

_SECONDS_TO_WAIT = 60
_TRIES, _SECONDS_BETWEEN_TRIES = 3, 0.5
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_KINDS = ("sqlite", "postgresql+psycopg")


@contextmanager
def open_storage(url: str, heartbeat_s: int = 1) -> Iterator[RDBStorage]:
    """The data base of an address, such as sqlite:///fleet.db; its tables are made where they lack.

    Args:
        heartbeat_s: How often, in seconds, those who carry out trials say that they still do. A
            trial of which nobody said so for twice as long is lost.

    Raises:
        InputError: The address is none of a data base that is known here.
        FleetError: It cannot be reached, holds something else, or goes away while it is used.
    """
    parsed = _parsed(url)
    optuna.logging.set_verbosity(logging.WARNING)
    waiting = {"timeout" if parsed.drivername == "sqlite" else "connect_timeout": _SECONDS_TO_WAIT}
    try:
        storage = _with_tables(
            partial(
                _Storage,
                parsed.render_as_string(hide_password=False),
                engine_kwargs={"connect_args": waiting, "pool_pre_ping": True},
                heartbeat_interval=heartbeat_s,
                grace_period=2 * heartbeat_s,
            )
        )
    except (SQLAlchemyError, RuntimeError, ImportError) as error:
        raise _unreachable(url, error) from error
    try:
        yield storage
    except (SQLAlchemyError, StorageInternalError) as error:
        raise _unreachable(url, error) from error
    finally:
        storage.disconnect()


class _Storage(RDBStorage):
    """A storage whose connections are closed, also where it cannot be made."""

    def __init__(self, url: str, **settings: Any) -> None:
        try:
            super().__init__(url, **settings)
        except BaseException:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Close all connections, if it got so far as to have any."""
        if hasattr(self, "engine"):
            self.remove_session()
            self.engine.dispose()


def _with_tables(make: Callable[[], _Storage]) -> _Storage:
    """A storage, made anew where another process made the same tables at the same time."""
    with quiet():
        for _ in range(_TRIES):
            try:
                return make()
            except DatabaseError:
                time.sleep(_SECONDS_BETWEEN_TRIES)
        return make()


@contextmanager
def quiet() -> Iterator[None]:
    """Pass over what optuna warns of where heartbeats are recorded by others than itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage", category=UserWarning)
        yield


def shown(url: str) -> str:
    """An address without its password."""
    return _parsed(url).render_as_string(hide_password=True)


def _unreachable(url: str, error: Exception) -> FleetError:
    """The error of a data base that does not answer."""
    cause = getattr(error, "orig", None) or error
    return FleetError(
        "the storage of studies cannot be used",
        where=shown(url),
        why=" ".join(str(cause).split()) or type(cause).__name__,
    )


def _parsed(url: str) -> URL:
    try:
        found = make_url(url)
    except ArgumentError:
        found = None
    if found is not None:
        found = found.set(drivername=_DRIVERS.get(found.drivername, found.drivername))
    if found is None or found.drivername not in _KINDS:
        raise InputError(
            "this is no address of a storage",
            where=url if found is None else found.render_as_string(hide_password=True),
            fix="give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
        )
    return found
