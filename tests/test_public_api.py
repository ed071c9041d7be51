"""What users see: the names, and a docstring on every one of them."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

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


@pytest.mark.parametrize("name", MODULES)
def test_every_module_and_public_object_has_a_docstring(name: str) -> None:
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("circlet"):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert module.__doc__
    own = [
        thing
        for label, thing in vars(module).items()
        if not label.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == name
    ]
    assert [thing.__name__ for thing in own if not thing.__doc__] == []
