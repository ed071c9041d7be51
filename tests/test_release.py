"""What a release promises: one version, a changelog that agrees with it, names that stay."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import circlet
from circlet.artifact.file import VERSION

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
INTERNAL = {"entered", "of", "opened", "fitting", "options", "source"}
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)( - \d{4}-\d{2}-\d{2})?")


def project() -> dict[str, object]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    facts: dict[str, object] = tomllib.loads(text)["project"]
    return facts


def numbers(text: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(text)
    assert found is not None, text
    return tuple(map(int, found.groups()[:3]))


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in project() and project()["dynamic"] == ["version"]
    assert numbers(circlet.__version__)
    holders = [
        path.relative_to(ROOT)
        for path in (ROOT / "circlet").rglob("*.py")
        if f'"{circlet.__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert holders == [Path("circlet/__init__.py")]


def test_the_changelog_and_the_version_agree() -> None:
    entries = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    released = [numbers(entry) for entry in entries if entry != "Unreleased"]
    assert "Unreleased" not in entries[1:]
    assert released == sorted(set(released), reverse=True)
    assert all(" - " in entry for entry in entries if entry != "Unreleased")
    now = numbers(circlet.__version__)
    assert (not released or now > released[0]) if entries[0] == "Unreleased" else now == released[0]


def listed_names() -> dict[str, list[str]]:
    """The stable names of the page, without the package's, and their parameters."""
    table = PAGE.partition("<!-- names: begin -->")[2].partition("<!-- names: end -->")[0]
    rows = re.findall(r"^\| `circlet\.([\w.]+)` \|(.*)\|$", table, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", parameters) for name, parameters in rows}


def test_the_names_that_stay_are_those_of_the_page() -> None:
    own = {name for name in circlet.__all__ if not is_of_litert(name)}
    assert {name for name in listed_names() if "." not in name} == own


def test_parameters_that_stay_are_those_of_the_page() -> None:
    for name, parameters in listed_names().items():
        thing = getattr(circlet, name, None)
        if name.startswith("Session."):
            thing = inspect.getattr_static(circlet.Session, name.partition(".")[2], None)
        if inspect.isfunction(thing) or thing is circlet.Session:
            found = [name for name in inspect.signature(thing).parameters if name != "self"]
            assert found == parameters, name


def test_every_method_of_a_session_is_on_the_page_or_internal() -> None:
    methods = {name for name in vars(circlet.Session) if not name.startswith("_")}
    listed = {name.partition(".")[2] for name in listed_names() if "." in name}
    assert methods - listed == INTERNAL


def is_of_litert(name: str) -> bool:
    home = getattr(getattr(circlet, name), "__module__", "")
    return home.startswith("circlet.frontends") and home != "circlet.frontends.user_ops"


def test_the_page_says_which_pythons_and_artifacts_there_are() -> None:
    assert project()["requires-python"] == ">=3.11" and "Python 3.11, 3.12 and 3.13" in PAGE
    assert f"holds version {VERSION} of its format" in PAGE


def test_what_strangers_need_to_report_is_there() -> None:
    templates = {path.stem for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")}
    assert {"wrong-answer-or-error", "missing-operator", "slow-network", "config"} <= templates
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a vulnerability" in policy and "docs/security.md" in policy
