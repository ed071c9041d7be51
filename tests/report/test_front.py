"""A front on a page: its points, and where the chosen one has each operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from circlet.commands.report import ReportRequest, make_report
from circlet.errors import InputError
from circlet.pareto.front import FrontPoint, ParetoFront, write_front
from circlet.placement.problem import Configuration, Measurement, Setting
from circlet.report.read import reports_in
from tests.report.browser import chromium, opened
from tests.report.networks import blocks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("net/block_1/conv", "net/block_1/relu", "net/softmax")


def point(us: float, mib: float, *backends: str, single: str = "") -> FrontPoint:
    placement = dict(zip(NAMES, backends, strict=True))
    measured = Measurement(us * 1e3, mib * 2**20, us * 900, us * 1100, 5, partitions=2)
    return FrontPoint(Configuration(placement, Setting(2, "O0")), measured, None, single)


FRONT = ParetoFront(
    "net",
    ("cpu", "litert"),
    tuple((name,) for name in NAMES),
    (
        point(10.0, 4.0, "cpu", "litert", "cpu"),
        point(20.0, 2.0, *["litert"] * 3, single="litert"),
    ),
    (point(30.0, 8.0, *["cpu"] * 3, single="cpu"),),
    strategy="auto",
    space=10**30,
    evaluations=3,
    reference=(32e3, 9e6),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def request(folder: Path, front: ParetoFront = FRONT) -> ReportRequest:
    model, path = folder / "net.tflite", folder / "front.json"
    model.write_bytes(blocks(1))
    write_front(path, front)
    return ReportRequest((model,), folder / "page.html", runs=0, front=path)


def test_a_report_holds_the_front_and_is_read_back(tmp_path: Path) -> None:
    made = make_report(request(tmp_path))
    found = made.reports[0].front
    assert found is not None and [p.us for p in found.points] == [10.0, 20.0, 30.0]
    assert [p.is_front for p in found.points] == [True, True, False]
    assert found.points[0].backends == (0, 1, 0) and found.space == "1" + 30 * "0"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert reports_in(page, "page")[0].front == found


def test_a_front_of_another_network_is_refused(tmp_path: Path) -> None:
    other = replace(FRONT, groups=(("elsewhere",),))
    with pytest.raises(InputError, match="another network"):
        make_report(request(tmp_path, other))


def test_a_click_on_a_point_shows_its_placement(browser: Browser, tmp_path: Path) -> None:
    made = make_report(request(tmp_path))
    with opened(browser, made.output) as page:
        page.click('nav [data-view="front"]')
        assert page.locator("circle.dot").count() == 3
        chosen = page.inner_text(".front-point")
        assert "The chosen placement" in chosen and "10 µs" in chosen and "4 MiB" in chosen
        page.click('circle.dot[data-point="2"]')
        chosen = page.inner_text(".front-point")
        assert "cpu alone" in chosen and "30 µs" in chosen and "litert" not in chosen
        assert page.get_attribute('circle.dot[data-point="2"]', "class") == (
            "dot front-single selected"
        )
        page.locator('circle.dot[data-point="0"]').press("Enter")
        page.wait_for_selector(".front-point:has-text('The chosen placement')")
        rows = page.locator(".front-point table >> nth=1").inner_text()
        assert [word in rows for word in ("CONV_2D", "litert", "net/softmax")] == [True] * 3
        page.click(".front-point button.link:has-text('relu')")
        assert "RELU" in page.inner_text(".details")


def test_without_a_front_there_is_no_such_part(browser: Browser, tmp_path: Path) -> None:
    made = make_report(replace(request(tmp_path), front=None))
    with opened(browser, made.output) as page:
        assert page.locator('nav [data-view="front"]').count() == 0
