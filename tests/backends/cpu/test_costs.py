"""What the cost model predicts."""

from __future__ import annotations

import pytest

from circlet.backends.cpu import costs


def test_a_float_tile_takes_its_products_its_loads_or_its_latency() -> None:
    assert costs.float_tile(8, 3, 10) == (24 + 1) * 10
    assert costs.float_tile(14, 1, 10) == (15 + 1) * 10
    assert costs.float_tile(14, 0.5, 10) == pytest.approx((14 * 0.8 + 0.5 + 1) * 10)
    assert costs.float_tile(1, 1, 10) == (8 + 1) * 10
    assert costs.broadcast_tile(11, 1, 10) == (15 + 1) * 10
    assert costs.broadcast_tile(6, 2, 10) == costs.float_tile(6, 2, 10)


def test_a_dot_tile_takes_its_products_and_part_of_its_loads() -> None:
    assert costs.dot_tile(4, 2) == pytest.approx(8 + 0.4 * 6)


def test_sums_that_leave_their_registers_take_longer() -> None:
    def per_sum(pixels: int, vectors: int, registers: int, *, is_near: bool = True) -> float:
        return costs.paired_tile(pixels, vectors, registers, is_near) / (pixels * vectors)

    assert per_sum(4, 2, 16) < per_sum(6, 2, 16)
    assert per_sum(4, 2, 32) > per_sum(6, 2, 32)
    assert per_sum(4, 2, 16, is_near=False) > per_sum(6, 2, 16, is_near=False)


def test_windows_and_weights_count_their_parts() -> None:
    assert costs.window(5, 9) == 53
    assert costs.weights(96) == 6
    assert costs.weights(3 << 20) == (3 << 20) / 4


@pytest.mark.parametrize("pixel_bytes", [0, 64, 256, 1024, 2048, 4096 + 64, 3 * 1024])
def test_inputs_in_many_sets_of_the_cache_stay_there(pixel_bytes: int) -> None:
    assert costs.conflicts(14, pixel_bytes) == 1


@pytest.mark.parametrize("pixel_bytes", [4096, 8192, 3 * 4096, 4096 + 4])
def test_inputs_that_meet_in_one_set_push_each_other_out(pixel_bytes: int) -> None:
    assert costs.conflicts(7, pixel_bytes) == 1
    assert 1 < costs.conflicts(8, pixel_bytes) < costs.conflicts(13, pixel_bytes)
