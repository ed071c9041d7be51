"""Pages that are made from code are current; links and named files exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from circlet.errors import CircletError
from circlet.limits import Limits
from tools import make_docs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
MADE = {
    path
    for page in PAGES
    for path in re.findall(r"<!-- file: (\S+) -->", page.read_text(encoding="utf-8"))
}
NAMED = re.compile(r"`((?:circlet|tests|tools|bench|docs)/[\w/.-]+\.(?:py|h|c|md))`")


@pytest.mark.parametrize("page", make_docs.pages(), ids=lambda page: page.name)
def test_a_page_made_from_code_is_current(page: Path) -> None:
    wanted = make_docs.pages()[page]
    assert page.read_text(encoding="utf-8") == wanted, "run: python tools/make_docs.py"


def test_every_error_says_what_it_means_and_what_to_do() -> None:
    for kind in make_docs.error_classes():
        meaning, action = make_docs.explained(kind)
        assert meaning.endswith(".") and action.endswith("."), kind.__name__


def test_error_codes_differ() -> None:
    codes = [kind.code for kind in make_docs.error_classes()]
    assert len(codes) == len(set(codes)) and CircletError.code not in codes


def test_every_limit_is_described() -> None:
    described = dict(make_docs.limit_descriptions())
    assert set(described) == set(Limits._fields)


def test_forms_that_differ_in_the_first_type_are_one_line() -> None:
    forms = ("INT8 INT8 -> INT8", "UINT8 UINT8 -> UINT8", "INT16 INT8 -> INT16", "* -> *")
    assert make_docs.grouped_forms(forms) == [
        "`T T -> T`: INT8, UINT8",
        "`INT16 INT8 -> INT16`",
        "`* -> *`",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    missing += [n for n in NAMED.findall(text) if n not in MADE and not (ROOT / n).exists()]
    assert not missing


def test_every_dependency_has_its_reason() -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = facts["project"]["optional-dependencies"].values()
    wanted = [*facts["build-system"]["requires"], *facts["project"]["dependencies"]]
    wanted += [requirement for extra in extras for requirement in extra]
    names = {re.split(r"[\[=<>~ ]", requirement)[0] for requirement in wanted} - {"circlet"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"| {name} |" not in page] == []
