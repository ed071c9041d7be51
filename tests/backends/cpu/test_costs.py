"""The cost model: stored parameters, and what they predict."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from circlet.backends.cpu.costs import DATA, DEFAULT_COSTS, Costs, costs_of, level_of
from circlet.target.targets import parse_target

LEVELS = {
    "x86_64+v4": "avx512",
    "x86_64+v4+avx512vnni": "avx512",
    "x86_64+v3": "avx2",
    "aarch64+neon": "neon",
    "x86_64": "plain",
    "riscv64": "plain",
}


@pytest.mark.parametrize(("target", "level"), LEVELS.items())
def test_parameters_follow_from_the_instruction_set(target: str, level: str) -> None:
    assert level_of(parse_target(target)) == level
    assert costs_of(parse_target(target)) is costs_of(parse_target(target))


def test_what_is_stored_is_known_and_positive() -> None:
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    assert set(stored) <= set(LEVELS.values())
    for level in stored.values():
        assert set(level) <= set(asdict(DEFAULT_COSTS))
        assert all(value >= 0 for value in asdict(Costs(**level)).values())


def test_a_tile_takes_its_products_or_its_loads() -> None:
    bare = replace(DEFAULT_COSTS, latency=0, step=0)
    assert bare.float_tile(8, 3, 10) == 240
    assert bare.float_tile(8, 1, 10) == 90
    assert bare.float_tile(8, 0.5, 10) == pytest.approx(69)
    assert replace(bare, tile=5, piece=2).float_tile(8, 3, 10) == 261
    assert replace(bare, latency=50).float_tile(8, 3, 10) == 500


def test_other_costs_count_their_parts() -> None:
    costs = Costs(dot_load=0.5, dot_step=1, window_tile=8, second_level_bytes=100)
    assert costs.dot_tile(4, 2) == 12
    assert costs.window(5, 9) == 53
    assert costs.weights(96) == 6
    assert costs.weights(120) == 20
