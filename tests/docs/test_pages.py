"""The pages hold together: commands parse, links lead somewhere, README leads to all of them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest

import circlet
from circlet.cli import group
from circlet.sample import Sample
from tests.corpora import corpus
from tests.docs.how_to import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
OF_EXTRAS = ("mkdocs",)  # of the extra docs, which the tests do not need
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every shell command of a page."""
    for language, block in _FENCED.findall(text_of(page)):
        for line in block.splitlines() if language in ("sh", "text") else ():
            for part in re.split(r"&&|;|\|", line):
                words = shlex.split(re.sub(r"^\s*do ", "", part), comments=True)
                yield words[: words.index(">")] if ">" in words else words


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def targets(page: Path) -> list[tuple[Path, str]]:
    """The files, and places in them, that a page links to."""
    plain = _FENCED.sub("", text_of(page))
    links = [link.partition("#") for link in _LINK.findall(plain) if "://" not in link]
    return [(page.parent / path if path else page, place) for path, _, place in links]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_of_ours_is_one_that_there_is(page: Path) -> None:
    for words in commands(page):
        if words[:1] == ["circlet"] and words[1:] != ["--help"]:
            arguments = [word for word in words[1:] if word != "..."]
            whole = click.Context(group, **group.context_settings)
            command = group.get_command(whole, arguments[0]) if arguments else None
            assert command is not None, words
            command.make_context(arguments[0], arguments[1:], parent=whole)
        if words[:2] == ["python", "-m"] and words[2] not in OF_EXTRAS:
            assert find_spec(words[2]) is not None, words


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, place in targets(page):
        assert target.exists(), target
        headings = re.findall(r"^#+ (.*)$", text_of(target), re.MULTILINE) if place else []
        shown = re.findall(r"^::: (\S+)$", text_of(target), re.MULTILINE) if place else []
        known = {*map(anchor, headings), *shown}
        owner = place.rpartition(".")[0]  # a method stands with its class
        assert not place or {place, owner} & known, (target, place)


def test_readme_leads_to_every_page() -> None:
    found, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop().resolve()
        if page not in found and page.suffix == ".md":
            found.add(page)
            todo += [target for target, _ in targets(page)]
    assert {page.resolve() for page in PAGES} <= found


def test_the_custom_operator_page_does_what_it_says() -> None:
    path = corpus("models/custom_op_FillFrom.tflite")
    page = text_of(ROOT / "docs" / "adding-a-custom-operator.md")
    names: dict[str, object] = {}
    try:
        for language, block in _FENCED.findall(page):
            assert language == "python"
            exec(compile(block.replace(path.name, str(path)), "page", "exec"), names)
        session = names["session"]
        assert isinstance(session, circlet.Session)
        assert set(session.run([value.empty() for value in session.inputs]))
    finally:
        for name in ("FillFrom", "Cube"):
            circlet.register_op(name, lambda *_: [], lambda *_: np.zeros(1)).unregister()


def test_the_page_about_bf16_opens_a_session_as_it_says() -> None:
    ((_, block),) = [
        found
        for found in _FENCED.findall(text_of(ROOT / "docs" / "bf16.md"))
        if found[0] == "python"
    ]
    names: dict[str, object] = {"circlet": circlet}
    model = str(Sample("float").model_path)
    exec(compile(block.replace("model.tflite", model), "page", "exec"), names)
    assert isinstance(names["session"], circlet.Session)


def test_every_file_of_the_how_tos_is_said_where_to_find() -> None:
    """Names of the corpora's networks and data that pages use; what pages write has other names."""
    known = json.loads(corpus("index.json").read_text(encoding="utf-8"))
    public = {name for part in ("models", "data") for name in known[part]}
    index = text_of(ROOT / "docs" / "how-to" / "index.md")
    told = set(re.findall(r"^\| `(\S+)` \| \[", index, re.MULTILINE))
    pages = [*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "docs" / "answers.md"]
    used = {name for page in pages for name in re.findall(r"[\w.-]+\.\w+", text_of(page))}
    assert told and told <= public
    assert used & public <= told
