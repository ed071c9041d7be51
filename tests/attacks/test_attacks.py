"""Each abuse of `tests.attacks` is refused with its code, in little time."""

from __future__ import annotations

import pkgutil
import time
from importlib import import_module

import pytest

import tests.attacks
from circlet.errors import CircletError
from circlet.formats import load

NAMES = [
    module.name
    for module in pkgutil.iter_modules(tests.attacks.__path__)
    if module.name not in ("build", "test_attacks")
]


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_is_refused_with_its_code(name: str) -> None:
    attack = import_module(f"tests.attacks.{name}")
    data = attack.make()
    start = time.perf_counter()
    try:
        load(data)
        code = ""
    except CircletError as error:
        code = error.code
    assert code == attack.CODE
    assert time.perf_counter() - start < 2


def test_the_unspoilt_network_loads() -> None:
    from tests.attacks.build import small

    assert [op.kind for op in load(small()).main.ops] == ["ADD"]


def test_there_are_attacks() -> None:
    assert len(NAMES) >= 25
