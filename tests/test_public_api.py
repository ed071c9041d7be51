"""What users see: the names, and a docstring on every one of them."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import circlet

MODULES = [
    module.name
    for module in pkgutil.walk_packages(circlet.__path__, "circlet.")
    if module.name != "circlet.__main__"
]


def test_the_public_names() -> None:
    assert {"CircletError", "Session", "__version__", "load", "save"} <= set(circlet.__all__)
    assert sorted(circlet.__all__) == circlet.__all__


@pytest.mark.parametrize("name", circlet.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(circlet, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        circlet.nothing  # noqa: B018


def undocumented(module: ModuleType) -> Iterator[str]:
    """Names of a module and of what it defines that have no docstring."""
    own = [
        thing
        for label, thing in vars(module).items()
        if not label.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    ]
    for thing in (module, *own):
        if not thing.__doc__:
            yield f"{module.__name__}: {thing.__name__}"


@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in MODULES}))
def test_every_module_and_public_object_has_a_docstring(room: str) -> None:
    found, absent = list[str](), set[str]()
    for name in MODULES:
        if name.split(".")[1] != room:
            continue
        try:
            found += undocumented(import_module(name))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("circlet"):
                raise
            absent.add(str(error.name))
    assert found == []
    if absent:
        pytest.skip(f"modules that need {', '.join(sorted(absent))}, which is not installed")
