"""Blocks of rows whose scores the cache holds."""

from __future__ import annotations

import pytest

from circlet.backends.cpu.abi import LINE_BYTES
from circlet.backends.cpu.lower.products.scores import (
    ScoreTiles,
    block_rows,
    score_pitch,
)
from circlet.backends.cpu.lower.products.tiles import Tile

_TILES = ScoreTiles(Tile(14, 2), Tile(6, 4))


@pytest.mark.parametrize("keys", [1, 16, 17, 49, 64, 100, 256, 512, 1000, 1024, 4096])
def test_rows_of_scores_are_an_odd_number_of_lines_apart(keys: int) -> None:
    pitch = score_pitch(keys)
    assert pitch * 4 % LINE_BYTES == 0
    assert pitch * 4 // LINE_BYTES % 2 == 1
    assert keys <= pitch < keys + 2 * LINE_BYTES // 4


@pytest.mark.parametrize("rows", [1, 5, 14, 100, 128, 250, 256, 257, 384, 1000, 4096])
@pytest.mark.parametrize("keys", [16, 128, 256, 500, 1024, 9000])
def test_blocks_compute_few_rows_twice(rows: int, keys: int) -> None:
    block = block_rows(rows, score_pitch(keys), _TILES)
    assert block == min(rows, block) > 0
    computed = -(-rows // block) * block
    assert computed - rows < -(-rows // block) * 14


def test_few_long_rows_are_a_block() -> None:
    assert block_rows(64, score_pitch(100_000), _TILES) == 14
