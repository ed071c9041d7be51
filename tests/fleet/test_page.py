"""Carries out docs/fleet.md, and ends its processes in the midst."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from circlet.sample import Sample
from tests.fleet.postgres import postgresql, programs
from tests.fleet.processes import ROOT, Fleet, children, fleet, kill, until

pytest.importorskip("distributed", reason="the extra fleet is not installed")
pytest.importorskip("optuna", reason="the extra fleet is not installed")

from circlet.fleet.fronts import Standing, standings
from circlet.fleet.storage import open_storage

pytestmark = pytest.mark.slow

WORKERS = 2
PAGE = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")


def commands(word: str) -> list[list[str]]:
    """The page's commands `circlet fleet WORD` for one machine, as arguments."""
    part = PAGE.partition("## On one machine")[2].partition("\n## ")[0]
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))
    lines = [shlex.split(line)[1:] for line in blocks.splitlines()]
    return [line for line in lines if line[:2] == ["fleet", word]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The page's scheduler, at another port, and its workers."""
    folder = tmp_path_factory.mktemp("fleet")
    shutil.copy(Sample().model_path, folder / "net.tflite")
    with fleet(folder) as made:
        (serve,) = commands("serve")
        serve[serve.index("--port") + 1] = "0"
        made.serve(serve)
        for work in commands("work"):
            made.start(with_values(work, scheduler=made.scheduler))
        assert len(made.started) == 1 + WORKERS
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'fleet.db'}"
        return
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgresql(folder) as url:
        yield url


def with_values(arguments: list[str], **values: str) -> list[str]:
    """A command of the page with other values of some options."""
    found = list(arguments)
    for name, value in values.items():
        found[found.index(f"--{name}") + 1] = value
    return found


def standing(storage: str) -> Standing | None:
    with open_storage(storage) as opened:
        found = standings(opened)
    return found[0] if found else None


def evaluated(storage: str) -> int:
    found = standing(storage)
    return 0 if found is None else found.counts.evaluated


def test_the_page_holds_though_a_worker_and_the_driver_are_killed(
    running: Fleet, storage: str
) -> None:
    (search,), (status,) = commands("search"), commands("status")
    study = f"study-{storage.partition(':')[0]}"
    values = {"scheduler": running.scheduler, "storage": storage, "study": study}
    search = with_values(search, **values, seconds="1")  # the driver ends before they all do
    wanted = int(search[search.index("--evaluations") + 1])

    driver = running.start(search)
    until(lambda: evaluated(storage) >= 1 or driver.poll() is not None)
    assert driver.poll() is None, running.said(driver)
    worker = next(pid for pid in children(running.started[1].pid) if is_worker(pid))
    kill(worker)
    until(lambda: evaluated(storage) >= 2)
    before = standing(storage)
    assert before is not None and before.counts.lost == 0
    kill(driver.pid)
    driver.wait(timeout=30)
    known = standing(storage)
    assert known is not None and known.counts.evaluated < wanted
    assert known.counts.running <= WORKERS

    report = running.call(search)
    (found,) = report["studies"]
    counts: dict[str, Any] = found["counts"]
    assert counts["evaluated"] == wanted
    assert counts["lost"] + counts["running"] <= known.counts.running <= WORKERS
    assert counts["waiting"] <= counts["retried"] == counts["lost"]
    assert counts["failed"] == 0
    assert found["front"] and {*found["front"][0]["placement"].values()} == {"reference"}
    status = with_values(status, storage=storage)
    assert running.call(status)["studies"] == report["studies"]


def is_worker(process: int) -> bool:
    """Whether a process is a worker, rather than what watches over resources of such."""
    words = Path(f"/proc/{process}/cmdline").read_bytes()
    return b"spawn_main" in words
