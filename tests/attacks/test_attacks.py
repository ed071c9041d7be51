"""Each abuse of `tests.attacks` is refused with its code, in little time.

A module with `RUNS` loads; its code is that of opening and running it, on every backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CircletError
from circlet.formats import load
from circlet.limits import Limits
from tests.attacks import attack_names

NAMES = attack_names()
ATTACKS = {name: import_module(f"tests.attacks.{name}") for name in NAMES}
RUNNING = [name for name, attack in ATTACKS.items() if hasattr(attack, "RUNS")]
LIMITS = Limits(tensor_bytes=1 << 24, memory_bytes=1 << 26, loop_turns=300, run_seconds=10)


def code_of(call: Callable[[], object]) -> str:
    try:
        call()
    except CircletError as error:
        return error.code
    return ""


def run(attack: ModuleType, backend: str) -> None:
    """Open and run on zeros, or on the attack's own inputs."""
    session = Session(
        attack.make(), backends=(backend, "reference"), threads=1, cache=False, limits=LIMITS
    )
    zeros = [np.zeros(value.shape, value.dtype) for value in session.inputs]
    session.run(attack.inputs() if hasattr(attack, "inputs") else zeros)


@pytest.mark.smoke
@pytest.mark.parametrize("name", NAMES)
def test_an_attack_on_the_reader_is_refused_with_its_code(name: str) -> None:
    attack = ATTACKS[name]
    data = attack.make()
    start = time.process_time()
    assert code_of(lambda: load(data)) == ("" if name in RUNNING else attack.CODE)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", RUNNING)
def test_an_attack_on_a_run_is_refused_with_its_code(name: str, backend: str) -> None:
    start = time.process_time()
    assert code_of(lambda: run(ATTACKS[name], backend)) == ATTACKS[name].CODE
    assert time.process_time() - start < 5


@pytest.mark.smoke
def test_the_unspoilt_network_loads() -> None:
    from tests.attacks.build import small

    assert [op.kind for op in load(small()).main.ops] == ["ADD"]


def test_there_are_attacks() -> None:
    assert len(NAMES) >= 25
