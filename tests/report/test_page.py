"""The page in Chromium: it draws without a network, and does what a reader asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.growth import chain
from circlet.commands.report import Made, ReportRequest, make_report
from tests.report.browser import chromium, opened
from tests.report.networks import blocks, reported

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWS = ("overview", "graph", "time", "memory", "roofline", "placement")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return reported(tmp_path_factory.mktemp("page"), blocks(3), runs=2)


def show(page: Page, view: str) -> None:
    page.click(f'nav [data-view="{view}"]')


def box(page: Page, graph: str, operator: int) -> str:
    """The selector of an operator's box in a graph."""
    return f'.pane[data-graph="{graph}"] [data-node="op {operator}"]'


def fill(page: Page, selector: str) -> str:
    """The colour of a box, once it has one."""
    return str(page.eval_on_selector(f"{selector} rect", "box => getComputedStyle(box).fill"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_is_drawn_without_a_network(browser: Browser, made: Made, scheme: str) -> None:
    with opened(browser, made.output, scheme) as page:
        for view in VIEWS:
            show(page, view)
            page.wait_for_selector(f".page.{view} :is(svg, table)")
            assert "undefined" not in page.inner_text("main")
            assert "NaN" not in page.inner_text("main")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, colour[4:-1].split(","))) < 384) == (scheme == "dark")


def test_an_operator_tells_what_is_known_of_it(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        show(page, "graph")
        page.click(box(page, "optimised", 0))
        details = page.inner_text(".details")
        for expected in (
            "CONV_2D",
            "net/block_1/conv",
            "float32[1",
            "RELU",
            "net/block_1/relu",
        ):
            assert expected in details
        assert "kernel_0" in page.inner_text(".details pre >> nth=0")
        assert page.get_attribute(box(page, "optimised", 0), "aria-current") == "true"
        page.click(".details button.link:has-text('RELU')")
        page.wait_for_selector(box(page, "source", 1) + ".selected")
        assert "Operator in the file" in page.inner_text(".details")
        page.keyboard.press("Escape")
        assert page.is_hidden(".details")


def test_colours_follow_what_is_chosen(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        show(page, "graph")
        page.click('[data-value="source"]')
        conv, relu = box(page, "source", 0), box(page, "source", 1)
        page.wait_for_selector(conv)
        page.click('[data-value="work"]')
        assert fill(page, conv) != fill(page, relu)
        page.click('[data-value="dtype"]')
        assert fill(page, conv) == fill(page, relu)
        assert "float32" in page.inner_text(".legend")


def test_the_theme_is_switched(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        background = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(background)
        page.click('[data-value="dark"]')
        assert page.evaluate(background) != before
        page.click('[data-value="auto"]')
        assert page.evaluate(background) == before
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(background) != before


def test_both_graphs_are_linked(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        show(page, "graph")
        page.click('[data-value="both"]')
        page.click(box(page, "source", 2))
        page.wait_for_selector(box(page, "optimised", 1) + ".selected")
        marked = page.locator('.pane[data-graph="optimised"] .box.selected')
        assert marked.count() == 1


def test_groups_open_and_close(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        show(page, "graph")
        page.click('[data-value="source"]')
        page.wait_for_selector(box(page, "source", 0))
        page.click('[aria-label="Close all groups"]')
        page.wait_for_selector(box(page, "source", 0), state="detached")
        page.click('[data-node$="block_1"]')
        page.wait_for_selector(box(page, "source", 0))
        assert page.get_attribute('[data-node$="block_1"]', "aria-expanded") == "true"


# Lines that go around all boxes: to the right of a skipped one, and to the left of a loop.
AROUND = ["01 02 03 31", "04 12 13 20 21 32 41"]


@pytest.mark.parametrize("pairs", AROUND)
def test_lines_lie_inside_of_the_drawing(browser: Browser, made: Made, pairs: str) -> None:
    edges = [list(pair) for pair in pairs.split()]
    children = [{"id": name, "width": 40, "height": 20} for name in sorted(set(pairs) - {" "})]
    box = {"id": "", "width": 0, "height": 0, "children": children, "edges": edges}
    with opened(browser, made.output) as page:
        script = "async box => (await import('report/layout')).layout(box)"
        laid = page.evaluate(script, box)
    places = [point["x"] for edge in laid["edges"] for point in edge["points"]]
    assert min(places) > 0
    assert max(places) < laid["width"]


def test_everything_is_reached_by_keyboard(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.view") == "graph"
        page.keyboard.press("Enter")
        page.wait_for_selector(box(page, "optimised", 0))
        assert page.evaluate("document.activeElement.dataset.view") == "graph"
        page.focus(box(page, "optimised", 0))
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.dataset.node") == "op 1"
        page.keyboard.press("Enter")
        assert "net/block_2/conv" in page.inner_text(".details")
        show(page, "memory")
        page.focus(".block")
        page.keyboard.press("Enter")
        assert page.locator(".block.selected").count() >= 1


def test_operators_are_searched_for(browser: Browser, made: Made) -> None:
    with opened(browser, made.output) as page:
        show(page, "time")
        page.fill("input[type=search]", "block_2 relu")
        page.wait_for_selector("tbody tr >> nth=1", state="detached")
        page.click("tbody .link")
        assert "net/block_2/relu" in page.inner_text(".details .name >> nth=0")


def test_two_networks_are_compared(browser: Browser, made: Made, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(blocks(4))
    both = make_report(ReportRequest((Path(made.output), other), tmp_path / "b.html", runs=0))
    with opened(browser, both.output) as page:
        assert "other.tflite" in page.inner_text("main")
        page.click('[data-value="added"]')
        assert page.locator("tbody >> nth=1 >> tr").count() == 2
        page.click("tbody >> nth=1 >> .link >> nth=0")
        assert "net/block_4" in page.inner_text(".details .name >> nth=0")
        show(page, "overview")
        page.click('[data-value="1"]')
        assert "13" not in page.inner_text("h1")


def test_names_do_no_harm(browser: Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)></script>"
    made = reported(tmp_path, blocks(2, start=name), runs=0)
    with opened(browser, made.output) as page:
        for view in VIEWS:
            show(page, view)
        assert page.locator("img").count() == 0


@pytest.mark.slow
def test_ten_thousand_operators_open(browser: Browser, tmp_path: Path) -> None:
    made = reported(tmp_path, chain(10_000), runs=0)
    with opened(browser, made.output) as page:
        show(page, "graph")
        page.click('[data-value="source"]')
        page.wait_for_selector('.pane[data-graph="source"] .box.group')
        page.click('[aria-label="Open all groups"]')
        page.wait_for_selector(".box >> nth=500", state="attached", timeout=120_000)
        assert page.locator(".box").count() <= 800
        show(page, "memory")
        page.wait_for_selector(".block")
