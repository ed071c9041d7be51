"""The site is complete, builds without a warning, and is read without a network."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import circlet
from tests import child
from tests.docs.how_to import ROOT

REFERENCE = ROOT / "docs" / "reference"
SHOWN = [
    name
    for page in sorted(REFERENCE.glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]
_FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


def named(dotted: str) -> object:
    """What a dotted name stands for."""
    try:
        return import_module(dotted)
    except ModuleNotFoundError:
        owner, _, name = dotted.rpartition(".")
        return getattr(named(owner), name)


def test_the_reference_shows_every_public_name() -> None:
    public = {f"circlet.{name}" for name in circlet.__all__} - {"circlet.__version__"}
    assert public <= set(SHOWN)
    listed = (REFERENCE / "index.md").read_text(encoding="utf-8")
    assert [name for name in circlet.__all__ if f"`{name}`" not in listed] == []


@pytest.mark.parametrize("name", SHOWN)
def test_everything_that_the_reference_shows_has_a_docstring(name: str) -> None:
    thing = named(name)
    assert inspect.getdoc(thing)
    for label, member in vars(thing).items() if inspect.isclass(thing) else ():
        function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        if not label.startswith("_") and inspect.isfunction(function):
            assert inspect.getdoc(function), f"{name}.{label}"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason="pip install 'circlet[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=child.environment(NO_MKDOCS_2_WARNING="1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert [(path.name, _FETCHED.findall(text)) for path, text in pages.items()] == [
        (path.name, []) for path in pages
    ]
    session = pages[tmp_path / "reference" / "session.html"]
    for label in ("run", "bind", "resized", "entered", "reset", "cancel", "placement"):
        assert f'id="circlet.Session.{label}"' in session
    assert (tmp_path / "examples" / "classify_digits.py").is_file()
