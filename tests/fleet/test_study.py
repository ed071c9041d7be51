"""Studies in a storage: trials are asked for, answered, lost and asked for again."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="the extra fleet is not installed")

from optuna.storages import RDBStorage
from optuna.trial import Trial
from sqlalchemy import text

from circlet.errors import FleetError, InputError
from circlet.fleet.fronts import Standing, standings
from circlet.fleet.machine import Machine, this_machine
from circlet.fleet.space import Space
from circlet.fleet.storage import open_storage, quiet, shown
from circlet.fleet.study import SAMPLERS, TrialStudy
from circlet.placement.problem import Configuration, Measurement
from tests.fleet.test_space import SPACE

SMALL = SPACE._replace(threads=(1,))
SMALLEST = SMALL._replace(groups=SPACE.groups[:3])
HERE = Machine("here", {"cpu": "x", "cores": "2"})
THERE = Machine("there", {"cpu": "y", "cores": "2"})


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[RDBStorage]:
    with open_storage(f"sqlite:///{tmp_path / 'fleet.db'}", 10) as opened, quiet():
        yield opened


def study(
    storage: RDBStorage,
    machine: Machine = HERE,
    *,
    model: str = "m",
    sampler: str = "random",
    space: Space = SMALL,
) -> TrialStudy:
    return TrialStudy(storage, "first", machine, model, space, sampler, 0)


def answer(configuration: Configuration) -> Measurement:
    """More of the cpu takes less time and more memory."""
    count = [*configuration.placement.values()].count("cpu")
    return Measurement(12.0 - count, 1.0 + count)


def asked(found: TrialStudy) -> tuple[Trial, Configuration]:
    got = found.ask()
    assert got is not None
    return got


def make_stale(storage: RDBStorage) -> None:
    """As if the last sign of life of every trial were long ago."""
    with storage.engine.begin() as connection:
        connection.execute(text("UPDATE trial_heartbeats SET heartbeat = '2001-01-01 00:00:00'"))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_configuration_is_measured_once_and_then_none_is_left(
    storage: RDBStorage, sampler: str
) -> None:
    found = study(storage, sampler=sampler)
    measured = []
    while (got := found.ask()) is not None:
        trial, configuration = got
        measured.append(configuration)
        found.tell(trial, answer(configuration), HERE)
    assert len(measured) == len({*measured}) == 4
    assert {*measured[0].placement.values()} == {"cpu", "reference"}
    counts = found.counts()
    assert (counts.evaluated, counts.failed, counts.running, counts.lost) == (4, 0, 0, 0)


def test_what_another_driver_is_measuring_is_not_measured_twice(storage: RDBStorage) -> None:
    drivers = [study(storage), study(storage)]
    got = [asked(drivers[number % 2])[1] for number in range(4)]
    assert len({*got}) == 4
    assert drivers[0].ask() is None
    assert drivers[0].counts().running == 4


def test_a_lost_trial_is_asked_for_again_with_the_same_choices(storage: RDBStorage) -> None:
    first = study(storage)
    trials = [asked(first) for _ in range(2)]
    first.tell(*trials[0][:1], answer(trials[0][1]), HERE)
    make_stale(storage)
    second = study(storage)
    second.recover(())
    counts = second.counts()
    assert (counts.evaluated, counts.running, counts.lost, counts.retried) == (1, 0, 1, 1)
    assert asked(second)[1] == trials[1][1]


def test_a_trial_that_somebody_carries_out_is_not_lost(storage: RDBStorage) -> None:
    first = study(storage)
    trial, _ = asked(first)
    make_stale(storage)
    first.beat([trial])
    other = study(storage)
    other.recover(())
    assert (other.counts().running, other.counts().lost) == (1, 0)


def test_a_trial_that_ended_before_its_first_sign_of_life_is_lost_in_time(
    storage: RDBStorage,
) -> None:
    asked(study(storage))
    with storage.engine.begin() as connection:
        connection.execute(text("DELETE FROM trial_heartbeats"))
    later = study(storage)
    later.recover(())
    assert later.counts().running == 1
    make_stale(storage)
    later.recover(())
    assert (later.counts().running, later.counts().lost) == (0, 1)


def test_choices_that_are_lost_over_and_over_are_given_up(storage: RDBStorage) -> None:
    found = study(storage)
    trial, configuration = asked(found)
    for _ in range(3):
        found.lose(trial)
        found.recover(())
        trial, again = asked_like(found, configuration)
        assert again == configuration
    found.lose(trial)
    found.recover(())
    assert found.counts().lost == 4 and found.counts().retried == 3


def asked_like(found: TrialStudy, wanted: Configuration) -> tuple[Trial, Configuration]:
    """The next trial of some choices; others on the way are answered."""
    for _ in range(10):
        trial, configuration = asked(found)
        if configuration == wanted:
            return trial, configuration
        found.tell(trial, answer(configuration), HERE)
    raise AssertionError("they are not asked for again")


def test_a_failed_configuration_is_measured_and_on_no_front(storage: RDBStorage) -> None:
    found = study(storage)
    trial, _ = asked(found)
    found.tell(trial, Measurement(math.inf, math.inf, error="it broke", code="E-BACKEND"), HERE)
    (standing,) = standings(storage)
    assert (standing.counts.evaluated, standing.counts.failed, standing.front) == (1, 1, ())


def test_classes_of_machines_have_fronts_of_their_own(storage: RDBStorage) -> None:
    for machine in (HERE, THERE):
        found = study(storage, machine, space=SMALLEST)
        while (got := found.ask()) is not None:
            found.tell(got[0], answer(got[1]), machine)
    both = standings(storage)
    assert {each.fingerprint for each in both} == {HERE.fingerprint, THERE.fingerprint}
    for each in both:
        assert {p.host for p in each.front} == {"here" if each.facts == HERE.facts else "there"}
        assert points(each) == [(11.0, 2.0), (12.0, 1.0)]
        assert [point.placement["a"] for point in each.front] == ["cpu", "reference"]
    assert standings(storage, "second") == []


def points(standing: Standing) -> list[tuple[float, float]]:
    return [(point.time_ns, point.memory_bytes) for point in standing.front]


def test_a_study_is_of_one_network(storage: RDBStorage) -> None:
    study(storage)
    with pytest.raises(InputError, match="another"):
        study(storage, model="n")


def test_there_is_no_such_sampler(storage: RDBStorage) -> None:
    with pytest.raises(InputError, match="sampler"):
        study(storage, sampler="best")


@pytest.mark.parametrize("url", ["fleet.db", "mysql://host/name", "://"])
def test_what_is_no_address_of_a_storage_is_an_error(url: str) -> None:
    with pytest.raises(InputError, match="address"), open_storage(url):
        pass


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_storage_that_cannot_be_used_is_an_error_without_its_password(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"this is no data base, but some text of a length that is not a page's")
    url = f"sqlite:///{path if kind == 'file' else tmp_path}"
    with pytest.raises(FleetError) as caught, open_storage(url):
        pass
    assert caught.value.code == "E-FLEET" and caught.value.where == url
    del caught
    gc.collect()  # connections that nobody closed are warned of, from Python 3.13 on
    assert shown("postgresql://me:secret@db/x") == "postgresql+psycopg://me:***@db/x"


@pytest.mark.smoke
def test_a_machine_is_known_by_what_its_times_depend_on() -> None:
    found = this_machine()
    assert "reference" in found.backends and int(found.facts["cores"]) >= 1
    assert found._replace(host="another").fingerprint == found.fingerprint
    other = found._replace(facts={**found.facts, "cores": "1000"})
    assert other.fingerprint != found.fingerprint
