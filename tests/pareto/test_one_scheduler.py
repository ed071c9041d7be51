"""USE_SCHEDULER and PROFILING_MODE place operators by what they cost, as ONE's scheduler does."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet import Session
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.costs.exec_time import ExecTime, Record
from circlet.costs.study import Effort
from circlet.costs.timing import Meter
from circlet.errors import InputError
from circlet.options import Options
from circlet.pareto.one_scheduler import TIMES, scheduled
from circlet.placement.one_operations import one_name
from circlet.sample import Sample
from tests.cli.call import as_json, circlet

MODEL = Sample().model_path
BOTH = Options(backends=("cpu", "reference"))
KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX")


@pytest.fixture(autouse=True)
def nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, without measured costs, and its folder as the working one."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)


def write_times(path: Path, **cheap: str) -> None:
    """A file of times: a kind takes a second where it is not cheap, which it is on cpu else."""
    times = ExecTime()
    for kind in KINDS:
        for backend in ("cpu", "reference"):
            us = 1 if cheap.get(kind, "cpu") == backend else 1_000_000
            times.put(Record(backend, one_name(kind), False, 1000, us))
    times.write(path)


def placed(options: Options) -> dict[str, str]:
    """Backends by the kinds that run there; nothing is compiled."""
    table = plan(Template.read(MODEL, options), options).placed
    return {row.op.kind: row.backend for row in table}


def test_each_operator_goes_where_the_file_of_times_says_that_it_is_cheap() -> None:
    write_times(Path(TIMES), SOFTMAX="reference", DEPTHWISE_CONV_2D="reference")
    found = scheduled(MODEL, BOTH, 1)
    wanted = dict.fromkeys(KINDS, "cpu")
    assert placed(found) == {**wanted, "SOFTMAX": "reference", "DEPTHWISE_CONV_2D": "reference"}


def test_rules_of_the_caller_go_before_the_schedule_and_ones_rules_behind_it() -> None:
    write_times(Path(TIMES), SOFTMAX="reference")
    asked = BOTH._replace(
        backend_of=(("SOFTMAX", "cpu"),), backend_of_source=(("RESHAPE", "reference"),)
    )
    assert {*placed(scheduled(MODEL, asked, 1)).values()} == {"cpu"}


def test_a_backend_of_which_nothing_is_known_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    times = ExecTime()
    for kind in KINDS:
        times.put(Record("reference", one_name(kind), False, 1000, 5))
    times.write(Path(TIMES))
    found = scheduled(MODEL, BOTH, 1)
    assert {name for _, name in found.backend_of} == {"reference"}
    assert "nothing is placed on cpu" in caplog.text


def test_where_nothing_is_known_at_all_it_is_said_what_to_do() -> None:
    with pytest.raises(InputError, match="PROFILING_MODE"):
        scheduled(MODEL, BOTH, 1)


def test_profiling_measures_and_writes_the_file_that_the_scheduler_reads() -> None:
    options = Options(backends=("reference",))
    effort = Effort(Meter(budget_ns=0), seconds=0.0)
    found = scheduled(MODEL, options, 1, measures=True, effort=effort)
    assert {name for _, name in found.backend_of} == {"reference"}
    names = {record.name for record in ExecTime.read(Path(TIMES)).records()}
    assert {one_name(kind) for kind in KINDS} <= names


def test_commands_schedule_and_sessions_say_that_they_do_not() -> None:
    write_times(Path(TIMES), CONV_2D="reference")
    Path("one.cfg").write_text("USE_SCHEDULER=1\nBACKENDS=cpu\n")
    found = as_json("place", MODEL, "--one-config", "one.cfg")["operators"]
    assert {row["kind"] for row in found if row["backend"] == "reference"} == {"CONV_2D"}
    with pytest.raises(InputError, match="USE_SCHEDULER"):
        Session(MODEL, one_config="one.cfg")
    done = circlet("inspect", MODEL, "--one-config", "one.cfg")
    assert done.exit_code == 1 and "E-INPUT" in done.output
