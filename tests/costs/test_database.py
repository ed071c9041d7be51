"""The database: rows of contexts never mix, whoever writes, and whatever a file holds."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sqlite3
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from circlet.config import Config
from circlet.costs.database import FILE, Database
from circlet.costs.rows import ALONE, WITHIN, Context, Row, Whole
from circlet.costs.signature import Features, Signature
from circlet.errors import CacheError

CONTEXT = Context("machine", "versions", "cpu", "O2", 1)


def row(key: str = "k", ns: float = 5.0, way: str = ALONE) -> Row:
    signature = Signature(key, "RELU", "arithmetic", "FLOAT32", Features(1, 2, 3, 4), 9)
    return Row(signature, way, ns, ns / 2, ns * 2, 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE


def test_rows_come_back_as_they_were(path: Path) -> None:
    database = Database(str(path))
    context = database.context(CONTEXT)
    rows = [row("a"), row("a", way=WITHIN), row("b", 3.0)]
    whole = Whole("n", 10.0, 12.0, 9.0, 15.0, 2, (("a", 1), ("b", 3)))
    database.add_operators(context, rows)
    database.set_border(context, 100.0, 0.5)
    database.add_transfers(context, context, [(64, 5.0), (128, 6.0)])
    database.add_network(context, whole)
    database.add_imported(context, [("Conv2D", True, 100, 5)])
    database.close()
    again = Database(str(path))
    assert again.context(CONTEXT) == context
    assert again.operators(context) == rows
    assert again.border(context) == (100.0, 0.5)
    assert again.transfers(context, context) == [(64, 5.0), (128, 6.0)]
    assert again.networks(context) == [whole]
    assert again.imported(context) == [("Conv2D", True, 100, 5)]


@pytest.mark.parametrize("field", ["machine", "versions", "backend", "options", "threads"])
def test_another_context_knows_nothing(path: Path, field: str) -> None:
    database = Database(str(path))
    database.add_operators(database.context(CONTEXT), [row()])
    changed: dict[str, Any] = {field: 2 if field == "threads" else "other"}
    other = CONTEXT._replace(**changed)
    assert database.operators(database.context(other)) == []
    assert list(database.known_threads(CONTEXT)) == [1]


def test_a_newer_measurement_takes_the_place_of_the_older(path: Path) -> None:
    database = Database(str(path))
    context = database.context(CONTEXT)
    database.add_operators(context, [row(ns=5.0)])
    database.add_operators(context, [row(ns=7.0)])
    assert [found.ns for found in database.operators(context)] == [7.0]


def test_forgetting_deletes_what_hangs_on_a_machine(path: Path) -> None:
    database = Database(str(path))
    other = CONTEXT._replace(machine="other")
    for context in (CONTEXT, other):
        database.add_operators(database.context(context), [row()])
    assert database.forget("machine") == 1
    assert database.operators(database.context(CONTEXT)) == []
    assert len(database.operators(database.context(other))) == 1
    assert database.forget() == 2


def _write(path: str, name: str) -> None:
    database = Database(path)
    for number in range(50):
        database.add_operators(database.context(CONTEXT), [row(f"{name} {number}")])


@pytest.mark.slow
def test_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    names = ["one", "two"]
    writers = [spawning.Process(target=_write, args=(str(path), name)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    database = Database(str(path))
    assert len(database.operators(database.context(CONTEXT))) == 100


def test_a_forked_child_opens_the_file_anew(path: Path) -> None:
    database = Database(str(path))
    context = database.context(CONTEXT)
    child = os.fork()
    if not child:
        database.add_operators(context, [row("child")])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [found.signature.key for found in database.operators(context)] == ["child"]


def test_threads_share_a_database(path: Path) -> None:
    database = Database(str(path))
    context = database.context(CONTEXT)

    def write(name: str) -> None:
        for number in range(20):
            database.add_operators(context, [row(f"{name} {number}")])

    writers = [Thread(target=write, args=(name,)) for name in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(database.operators(context)) == 40


def test_a_database_that_is_closed_is_not_taken_for_damaged(path: Path) -> None:
    database = Database(str(path))
    database.close()
    with pytest.raises(CacheError, match="closed"):
        database.context(CONTEXT)
    assert path.exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"not a database, but long enough to be read as one" * 100,
        b"SQLite format 3\0" + bytes(4000),
    ],
)
def test_a_damaged_file_is_set_aside_and_told(
    path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        database = Database(str(path))
    assert "is damaged" in caplog.text and "measured anew" in caplog.text
    assert path.with_name(f"{FILE}.damaged").read_bytes() == damage
    context = database.context(CONTEXT)
    database.add_operators(context, [row()])
    assert len(database.operators(context)) == 1


def test_a_file_that_is_damaged_while_open_is_set_aside(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Database(str(path)).close()
    database = Database(str(path))
    database.add_operators(database.context(CONTEXT), [row(str(n)) for n in range(500)])
    database.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    with caplog.at_level(logging.WARNING):
        again = Database(str(path))
        assert again.operators(again.context(CONTEXT)) == []
    assert "is damaged" in caplog.text


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE operators ADD COLUMN more TEXT",
        "CREATE TRIGGER t AFTER INSERT ON contexts BEGIN DELETE FROM operators; END",
        "CREATE VIEW v AS SELECT * FROM contexts",
    ],
)
def test_other_tables_and_triggers_are_damage(path: Path, statement: str) -> None:
    Database(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    Database(str(path))
    assert path.with_name(f"{FILE}.damaged").exists()


@pytest.mark.parametrize(
    "change",
    [
        "ns = 'much'",
        "ns = -1",
        "ns = 1e400",
        "low = 100",
        "held = 'none'",
        "way = 'guessed'",
        "computing = x'00'",
    ],
)
def test_rows_without_sound_numbers_are_ignored(path: Path, change: str) -> None:
    database = Database(str(path))
    context = database.context(CONTEXT)
    database.add_operators(context, [row("a"), row("b")])
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE operators SET {change} WHERE key = 'a'")
    connection.close()
    assert [found.signature.key for found in database.operators(context)] == ["b"]


def test_a_folder_in_its_place_is_a_coded_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(CacheError, match="cannot be used"):
        Database(str(path))


def test_without_a_cache_costs_stay_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        database = Database.of_cache(Config(cache_bytes=0))
    assert database.path == ":memory:"
    assert "for this process only" in caplog.text
    assert database.operators(database.context(CONTEXT)) == []


def test_a_context_closes_the_database(path: Path) -> None:
    with Database(str(path)) as database:
        database.context(CONTEXT)
    with pytest.raises(CacheError, match="closed"):
        database.context(CONTEXT)


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_database_that_nobody_holds_lets_go_of_the_file(path: Path, in_a_cycle: bool) -> None:
    """From Python 3.13 on a connection that is not closed is warned of."""
    database = Database(str(path))
    connection = database._connection
    holders: list[object] = [database]
    if in_a_cycle:
        holders.append(holders)
    del database, holders
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
