"""The code of the how-tos and of the page of commands does what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora import corpus
from tools.run_pages import DOCS, PAGES, PageError, blocks, carried_out, needs_corpora, same

NAMES = [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_page_prints_what_it_says(name: str) -> None:
    pytest.importorskip("ziglang", reason="pages compile networks")
    page = DOCS / name
    if needs_corpora(page):
        corpus("models")
        corpus("data")
    wanted = page.read_text(encoding="utf-8")
    assert carried_out(page) == wanted, "run: python tools/run_pages.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_code_is_seen(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    seen = list(blocks(text))
    assert text.count("```sh\n") + text.count("```python\n") == len(seen)
    assert text.count("```output\n") == sum(block.output is not None for block in seen)
    assert not any(block.output == "" for block in seen)


def test_outputs_are_the_same_but_for_times_sizes_and_targets() -> None:
    assert same("compiled in 12.5 s, 3,120 bytes", "found in the cache in 99.4 us, 99 bytes")
    assert same("5.67 us (4.97 us to 18.2 us)", "1.2 ms (998 us to 2 ms)")
    assert same("for x86_64_v3, x86_64_v4+avx512vnni", "for x86_64_v3")
    assert same(" class  score", "class   score ")
    assert not same("digit 5", "digit 6")
    assert not same("one", "one\ntwo")


def test_code_that_fails_is_no_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for code in ("```python\nraise ValueError(1)\n```\n", "```sh\nfalse\n```\n"):
        page.write_text(code)
        with pytest.raises(PageError, match=r"page\.md"):
            carried_out(page)


def test_outputs_are_renewed_and_marked_blocks_treated_as_they_say(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n\n```output\n2\n```\n"
        "<!-- varies -->\n```sh\necho new\n```\n\n```output\nold\n```\n"
        "<!-- not run: it would fail -->\n```sh\nfalse\n```\n"
        "<!-- exits with 3 -->\n```sh\necho what >&2; exit 3\n```\n\n```output\n```\n"
    )
    first, second, _, last = blocks(carried_out(page))
    assert (first.output, second.output, last.output) == ("1\n", "old\n", "what\n")
