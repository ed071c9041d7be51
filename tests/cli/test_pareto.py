"""`circlet pareto` and what uses its fronts, on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shlex import quote

import pytest

from circlet.commands.pareto import point_row
from circlet.commands.pareto_plot import front_svg
from circlet.pareto.front import FrontPoint, ParetoFront, write_front
from circlet.placement.problem import Configuration, Measurement, Setting
from tests.cli.call import circlet as call
from tests.pareto.networks import branches

NAMES = ("stem", "left", "right", "right again", "join", "end")


def point(us: float, mib: float, backend: str, level: str) -> FrontPoint:
    measured = Measurement(us * 1e3, mib * 2**20, us * 900, us * 1100, 5)
    placement = dict.fromkeys(NAMES, backend)
    return FrontPoint(Configuration(placement, Setting(2, level)), measured, None, backend)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A network, and a front of it."""
    model, path = tmp_path / "net.tflite", tmp_path / "front.json"
    model.write_bytes(branches())
    points = (point(10.0, 4.0, "cpu", "O2"), point(20.0, 2.0, "reference", "O0"))
    groups = tuple((name,) for name in NAMES)
    failed = Measurement(float("inf"), float("inf"), error="the outputs are wrong: by 2")
    bad = FrontPoint(Configuration(dict.fromkeys(NAMES, "cpu"), Setting(1, "O0")), failed)
    front = ParetoFront(
        "net", ("cpu", "reference"), groups, points, (bad,), points[0], "auto",
        space=64, evaluations=3, reference=(21e3, 5e6), hypervolume=1e9,
    )  # fmt: skip
    write_front(path, front)
    return str(model), str(path)


def test_a_front_is_shown_drawn_and_written(files: tuple[str, str], tmp_path: Path) -> None:
    model, front = files
    plot, one = str(tmp_path / "front.svg"), str(tmp_path / "one.json")
    shown = call("pareto", model, "--front", front, "--plot", plot, "--one", one)
    assert shown.exit_code == 0, shown.output
    for words in ("2 points of 3 evaluations", "best single backend: cpu, 10.0 us", "0.50x"):
        assert words in shown.output
    assert "failed: the outputs are wrong" in shown.output
    picture = Path(plot).read_text(encoding="utf-8")
    assert picture.startswith("<svg") and picture.count("<title>") == 2
    assert [row["id"] for row in json.loads(Path(one).read_text())["solutions"]] == [0, 63]
    found = json.loads(call("pareto", model, "--front", front, "--json").output)
    assert len(found["points"]) == 2 and found["others"][0]["measurement"]["time_ns"] is None


@pytest.mark.parametrize(
    ("us", "mib", "units"), [(20.0, 2.0, ("us", "MiB")), (3e4, 0.002, ("ms", "KiB"))]
)
def test_a_front_is_drawn_in_units_of_its_size(
    us: float, mib: float, units: tuple[str, str]
) -> None:
    both = (point(us / 2, mib, "cpu", "O2"), point(us, mib / 2, "reference", "O0"))
    picture = front_svg(ParetoFront("net", ("cpu",), ((NAMES[0],),), both, (), both[0], "auto"))
    assert f">time, {units[0]}<" in picture and f">memory, {units[1]}<" in picture
    assert ">one backend<" in picture and ">other placements<" not in picture
    texts = re.findall(r'<text x="[\d.]+" y="([\d.]+)">([^<]+)</text>', picture)
    places = {text: float(y) for y, text in texts}
    title = next(y for text, y in places.items() if text.startswith("net: "))
    assert places["one backend"] >= title + 15  # below it, whatever its length
    tiny = point_row(ParetoFront("net", ("cpu",), (), both, (), both[0], "auto"), both[0])[3]
    assert float(tiny) == pytest.approx(mib)


def test_a_placement_is_taken_from_a_front_and_run(files: tuple[str, str], tmp_path: Path) -> None:
    model, front = files
    placement = str(tmp_path / "placement.json")
    given = ("place", model, "--backend", "reference", "--front", front, "--best", "memory")
    placed = call(*given, "-o", placement)
    assert placed.exit_code == 0, placed.output
    assert "as measured: 20.0 us, 2.00 MiB" in placed.output
    hint = f"circlet run {quote(model)} --placement-file {quote(placement)} --threads 2 -O O0"
    assert hint in placed.output
    ran = call(
        "run",
        model,
        "--backend",
        "reference",
        "--placement-file",
        placement,
        "--no-cache",
        "--json",
    )
    assert ran.exit_code == 0, ran.output
    rows = json.loads(ran.output)["placement"]
    assert {row["backend"] for row in rows} == {"reference"}


def test_what_does_not_fit_together_is_refused(files: tuple[str, str], tmp_path: Path) -> None:
    model, front = files
    both = call("place", model, "--front", front, "--placement", front)
    assert both.exit_code == 1 and "E-INPUT" in both.output
    strange = call("place", model, "--front", front, "--best", "cheap")
    assert strange.exit_code == 1 and "time, memory" in strange.output
    same = str(tmp_path / "same")
    twice = call("pareto", model, "--front", front, "-o", same, "--plot", same)
    assert twice.exit_code == 1 and "same name" in twice.output
    assert call("pareto", model, "--threads", "0").exit_code == 2
    assert call("pareto", model, "--search", "guess").exit_code == 2
