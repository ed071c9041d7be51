"""Measured costs in a file of SQLite: many processes at once, and never rows of another machine.

Every row belongs to a context: machine, versions, backend, options, threads. Contexts of other
machines and versions are never read; those that nobody used for long are deleted.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self, TypeVar
from weakref import finalize

from circlet.artifact.cache import usable_folder
from circlet.config import Config
from circlet.costs.rows import (
    Context,
    Row,
    Whole,
    imported_row,
    network_row,
    numbers,
    operator_row,
    sound,
)
from circlet.errors import CacheError

VERSION = 1
FILE = f"costs-{VERSION}.sqlite"
LOGGER = logging.getLogger(__name__)
_WAIT_S = 30.0
_KEPT_S = 90 * 24 * 3600
T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS contexts (
  id INTEGER PRIMARY KEY, machine TEXT NOT NULL, versions TEXT NOT NULL, backend TEXT NOT NULL,
  options TEXT NOT NULL, threads INTEGER NOT NULL, used REAL NOT NULL,
  UNIQUE (machine, versions, backend, options, threads));
CREATE TABLE IF NOT EXISTS operators (
  context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE, key TEXT NOT NULL,
  way TEXT NOT NULL, label TEXT NOT NULL, kind TEXT NOT NULL, types TEXT NOT NULL,
  computing REAL NOT NULL, data_bytes REAL NOT NULL, weight_bytes REAL NOT NULL,
  outputs REAL NOT NULL, bytes INTEGER NOT NULL, ns REAL NOT NULL, low REAL NOT NULL,
  high REAL NOT NULL, held INTEGER NOT NULL, PRIMARY KEY (context, key, way)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS borders (
  context INTEGER PRIMARY KEY REFERENCES contexts ON DELETE CASCADE, ns REAL NOT NULL,
  ns_per_byte REAL NOT NULL);
CREATE TABLE IF NOT EXISTS transfers (
  writer INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE,
  reader INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE, size INTEGER NOT NULL,
  ns REAL NOT NULL, PRIMARY KEY (writer, reader, size)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS networks (
  context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE, network TEXT NOT NULL,
  ns REAL NOT NULL, total_ns REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
  partitions INTEGER NOT NULL,
  PRIMARY KEY (context, network)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
  context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE, network TEXT NOT NULL,
  key TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (context, network, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS imported (
  context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE, name TEXT NOT NULL,
  quantised INTEGER NOT NULL, size INTEGER NOT NULL, us INTEGER NOT NULL,
  PRIMARY KEY (context, name, quantised, size)) WITHOUT ROWID;
"""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_INHERITED: list[sqlite3.Connection] = []  # of a parent: a child may neither use nor close them


class _OtherTablesError(sqlite3.DatabaseError):
    """The file is a database, but not of costs."""


class Database:
    """The file; threads may share it, and processes may open it at once.

    A context manager that closes it. One that nobody closes is closed with the last who holds it.

    Args:
        path: Where it lies; ":memory:" for nowhere.

    Raises:
        CacheError: It cannot be opened or made.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._pid, self._lock = os.getpid(), Lock()
        self._open()

    @classmethod
    def of_cache(cls, config: Config | None = None) -> Database:
        """The database in the cache's folder; in memory where there is no cache."""
        config = config or Config.from_environment()
        folder = usable_folder(config) if config.cache_bytes else None
        if folder is None or not folder.is_writable:
            LOGGER.warning("costs are kept for this process only: there is no folder for a cache")
            return cls(":memory:")
        return cls(str(Path(folder.path) / FILE))

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def context(self, wanted: Context) -> int:
        """The number of a context, made where it is new."""

        def find(connection: sqlite3.Connection) -> int:
            now = time.time()
            connection.execute("DELETE FROM contexts WHERE used < ?", (now - _KEPT_S,))
            connection.execute(
                "INSERT INTO contexts (machine, versions, backend, options, threads, used) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used",
                (*wanted, now),
            )
            where = "machine = ? AND versions = ? AND backend = ? AND options = ? AND threads = ?"
            query = f"SELECT id FROM contexts WHERE {where}"
            return int(connection.execute(query, wanted).fetchone()[0])

        return self._change(find)

    def known_threads(self, wanted: Context) -> dict[int, int]:
        """Context numbers by threads, of contexts that agree in all else and hold operators."""
        query = (
            "SELECT threads, id FROM contexts WHERE machine = ? AND versions = ? AND backend = ? "
            "AND options = ? AND EXISTS (SELECT 1 FROM operators WHERE context = contexts.id)"
        )
        rows = self._read(query, wanted[:4])
        return {int(threads): int(number) for threads, number in sound(numbers, rows)}

    def add_operators(self, context: int, rows: Iterable[Row]) -> None:
        """Keep measurements, in place of older ones of the same operators."""
        values = [
            (context, s.key, row.way, s.label, s.group, s.types, *s.features, s.bytes, *row[2:])
            for row in rows
            for s in (row.signature,)
        ]
        marks = ", ".join("?" * 15)
        self._write(f"INSERT OR REPLACE INTO operators VALUES ({marks})", values)

    def operators(self, context: int) -> list[Row]:
        """All measured operators of a context whose numbers are sound."""
        query = (
            "SELECT key, label, kind, types, computing, data_bytes, weight_bytes, outputs, bytes, "
            "way, ns, low, high, held FROM operators WHERE context = ? ORDER BY key, way"
        )
        return list(sound(operator_row, self._read(query, (context,))))

    def set_border(self, context: int, ns: float, ns_per_byte: float) -> None:
        """Keep what a partition costs beside its operators."""
        self._write("INSERT OR REPLACE INTO borders VALUES (?, ?, ?)", [(context, ns, ns_per_byte)])

    def border(self, context: int) -> tuple[float, float] | None:
        """Nanoseconds of a partition, and for each byte that goes in or out; None if unknown."""
        query = "SELECT ns, ns_per_byte FROM borders WHERE context = ?"
        found = list(sound(numbers, self._read(query, (context,))))
        return (found[0][0], found[0][1]) if found else None

    def add_transfers(self, writer: int, reader: int, rows: Iterable[tuple[int, float]]) -> None:
        """Keep times of transfers by size."""
        values = [(writer, reader, size, ns) for size, ns in rows]
        self._write("INSERT OR REPLACE INTO transfers VALUES (?, ?, ?, ?)", values)

    def transfers(self, writer: int, reader: int) -> list[tuple[float, float]]:
        """Size and nanoseconds of each transfer that was measured."""
        query = "SELECT size, ns FROM transfers WHERE writer = ? AND reader = ? ORDER BY size"
        found = sound(numbers, self._read(query, (writer, reader)))
        return [(size, ns) for size, ns in found]

    def add_network(self, context: int, whole: Whole) -> None:
        """Keep the time of a whole network."""
        head, members = (context, *whole[:6]), whole.members

        def change(connection: sqlite3.Connection) -> None:
            where = "WHERE context = ? AND network = ?"
            connection.execute(f"DELETE FROM members {where}", (context, whole.network))
            connection.execute("INSERT OR REPLACE INTO networks VALUES (?, ?, ?, ?, ?, ?, ?)", head)
            rows = [(context, whole.network, key, count) for key, count in members]
            connection.executemany("INSERT INTO members VALUES (?, ?, ?, ?)", rows)

        self._change(change)

    def networks(self, context: int) -> list[Whole]:
        """All networks that were measured."""
        members: dict[str, list[tuple[str, int]]] = {}
        query = "SELECT network, key, count FROM members WHERE context = ? ORDER BY network, key"
        for network, key, count in self._read(query, (context,)):
            if isinstance(count, int) and 0 < count < 1 << 32:
                members.setdefault(str(network), []).append((str(key), count))
        query = (
            "SELECT network, ns, total_ns, low, high, partitions FROM networks WHERE context = ?"
        )
        rows = sound(network_row, self._read(query, (context,)))
        return [row._replace(members=tuple(members.get(row.network, ()))) for row in rows]

    def add_imported(self, context: int, rows: Iterable[tuple[str, bool, int, int]]) -> None:
        """Keep what another tool measured: ONE's name, whether quantised, bytes, microseconds."""
        values = [(context, name, int(quant), size, us) for name, quant, size, us in rows]
        self._write("INSERT OR REPLACE INTO imported VALUES (?, ?, ?, ?, ?)", values)

    def imported(self, context: int) -> list[tuple[str, bool, int, int]]:
        """What another tool measured."""
        query = "SELECT name, quantised, size, us FROM imported WHERE context = ? ORDER BY size"
        return list(sound(imported_row, self._read(query, (context,))))

    def forget(self, machine: str | None = None) -> int:
        """Delete all contexts, or those of one machine; how many there were."""
        where, values = ("", ()) if machine is None else (" WHERE machine = ?", (machine,))
        return self._change(lambda c: c.execute(f"DELETE FROM contexts{where}", values).rowcount)

    def _read(self, query: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        return self._change(lambda connection: connection.execute(query, values).fetchall())

    def _write(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        self._change(lambda connection: connection.executemany(query, rows))

    def _change(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """What a transaction gives; a damaged file is replaced by an empty one, once."""
        if os.getpid() != self._pid:
            self._pid, self._lock = os.getpid(), Lock()
            self._reopen()
        with self._lock:
            try:
                with self._connection:
                    return do(self._connection)
            except sqlite3.Error as error:
                self._set_aside(error)
            self._reopen()
            with self._connection:
                return do(self._connection)

    def _reopen(self) -> None:
        self._close()
        self._open()

    def _open(self) -> None:
        """Open the file; what closes it holds the connection, so that garbage cannot come first."""
        self._connection = self._opened()
        self._close = finalize(self, _let_go, self._connection, self._pid)

    def _opened(self) -> sqlite3.Connection:
        try:
            return _connected(self.path)
        except sqlite3.Error as error:
            self._set_aside(error)
        try:
            return _connected(self.path)
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, with what SQLite keeps beside it, and say so.

        Raises:
            CacheError: What the file holds is not at fault, or it cannot be renamed.
        """
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _DAMAGED and not isinstance(error, _OtherTablesError):
            raise _unusable(self.path, error) from error
        aside = f"{self.path}.damaged"
        try:
            Path(self.path).replace(aside)
        except OSError as failed:
            raise _unusable(self.path, failed) from error
        for suffix in ("-wal", "-shm", "-journal"):
            with suppress(OSError):
                Path(self.path + suffix).unlink()
        LOGGER.warning(
            "the database of costs is damaged (%s) and was renamed to %s; costs are measured anew",
            error,
            aside,
        )


def _let_go(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection that this process opened."""
    if pid == os.getpid():
        connection.close()
    else:
        _INHERITED.append(connection)


def _connected(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        with connection:
            connection.executescript(_SCHEMA)
        _check_schema(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection) -> None:
    """_OtherTablesError where the file holds other tables, or triggers, than are made here."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    wanted = {_plain(text) for text in _SCHEMA.split(";") if text.strip()}
    if {_plain(str(text)) for (text,) in found} != wanted:
        raise _OtherTablesError("it holds other tables")


def _plain(text: str) -> str:
    return " ".join(text.replace("IF NOT EXISTS ", "").split())


def _unusable(path: str, error: Exception) -> CacheError:
    return CacheError(
        "the database of costs cannot be used",
        where=path,
        why=str(error),
        fix="delete the file, free some space, or set CIRCLET_CACHE_DIR to another folder",
    )
