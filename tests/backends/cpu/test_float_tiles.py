"""The choice of register tiles, and the machine code that they become."""

from __future__ import annotations

import re
from math import ceil

import pytest

from circlet.backends.cpu.lower.floats.tiles import (
    Registers,
    choose_tile,
    dealt_tiles,
    registers_of,
    task_panels,
    vectors_of,
)
from circlet.backends.cpu.toolchain import compile_unit
from circlet.target.targets import parse_target

_WIDE, _NARROW = Registers(32), Registers(16)
_KERNEL = """#include <{header}>
__attribute__((visibility("default"))) void kernel(
    const void *params, void *const *operands, void *scratch, int64_t begin, int64_t end) {{
    {call}
}}
"""
_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+(?:j\w+|b\.\w+|b|cbn?z\s+\w+,|tbn?z\s+.*,)\s+(\.L\w+)\s*$")
_FMA = re.compile(r"^\s+(?:vfmadd|fmla)")
_STACK = re.compile(r"\(%rsp|\(%rbp|\[sp")
_MOVE = re.compile(r"^\s+(?:vmov|mov\.|ldr\s+q|str\s+q|ldp\s+q|stp\s+q)")


@pytest.mark.parametrize("registers", [_WIDE, _NARROW, Registers(32, by_lane=True), Registers(8)])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 13, 14, 49, 224])
@pytest.mark.parametrize("vectors", [0.5, 1, 1.5, 2, 3, 4.5, 5, 16, 63])
def test_tile_fits_registers_and_row(registers: Registers, width: int, vectors: float) -> None:
    tile = choose_tile(registers, width, vectors)
    assert registers.hold(tile)
    assert 1 <= tile.pixels <= width
    assert 0.5 <= tile.vectors <= ceil(vectors)


@pytest.mark.parametrize("width", [7, 14, 28, 56, 112])
def test_tile_of_wide_registers_divides_common_rows(width: int) -> None:
    tile = choose_tile(_WIDE, width, 6)
    waste = -(-width // tile.pixels) * tile.pixels / width
    assert waste < 1.15


@pytest.mark.parametrize(("pixel_bytes", "most"), [(1040 * 4, 14), (1024 * 4, 7), (2048 * 4, 7)])
def test_few_pixels_are_multiplied_together_whose_inputs_meet_in_one_set(
    pixel_bytes: int, most: int
) -> None:
    tile = choose_tile(_WIDE, 128, 32, pixel_bytes // 4, pixel_bytes)
    assert most - 7 < tile.pixels <= most


def test_halves_are_counted_where_they_take_less_time() -> None:
    halves = Registers(32, has_halves=True)
    assert [vectors_of(halves, count, 16) for count in (3, 8, 9, 24, 25)] == [0.5, 0.5, 1, 1.5, 2]
    assert [vectors_of(_WIDE, count, 16) for count in (3, 8, 9, 24, 25)] == [1, 1, 1, 2, 2]
    tile = choose_tile(halves, 196, 1.5)
    assert (tile.whole, tile.half, tile.channels(16)) == (2, 1, 24)


def test_single_row_keeps_several_sums_in_flight() -> None:
    assert choose_tile(_WIDE, 1, 64).vectors >= 4


def test_large_problem_has_enough_tasks() -> None:
    tile = choose_tile(_WIDE, 196, 6)
    tiles = -(-196 // tile.pixels)
    for far in (0, 4 << 20):
        dealt = dealt_tiles(tile, tiles, 3, 384, (196 * 384 * 4, far))
        assert -(-tiles // dealt.tiles) * 3 >= 8


def test_input_of_joined_tasks_stays_near() -> None:
    tile = choose_tile(_WIDE, 64, 1)
    assert dealt_tiles(tile, 5, 1, 4, (0, 0)) == (1, 5)
    assert dealt_tiles(tile, 500, 1, 4096, (0, 0)).joined * tile.pixels * 4096 * 4 < 1 << 20


def test_far_weights_are_read_for_as_many_tiles_as_fit() -> None:
    tile, deep = choose_tile(_WIDE, 49, 32), 2048
    tiles, blocks = -(-49 // tile.pixels), 16
    near, far = (49 * deep * 4, 1 << 10), (49 * deep * 4, 4 << 20)
    assert dealt_tiles(tile, tiles, blocks, deep, near).tiles < tiles
    assert dealt_tiles(tile, tiles, blocks, deep, far) == (tiles, 1)


def _inner_loops(text: str) -> list[list[str]]:
    """Bodies of loops that hold multiply-adds and no other loop."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "//"))]
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    loops = []
    for index, line in enumerate(lines):
        jump = _JUMP.match(line)
        start = labels.get(jump[1], index) if jump else index
        if start < index and any(_FMA.match(body) for body in lines[start:index]):
            loops.append((start, index))
    inner = [(a, b) for a, b in loops if not any(a < c and d < b for c, d in loops)]
    return [lines[a : b + 1] for a, b in inner]


@pytest.mark.parametrize(
    ("target", "width", "vectors"),
    [
        ("x86_64+v4", 196, 6),
        ("x86_64+v4", 56, 9),
        ("x86_64+v4", 196, 1.5),
        ("x86_64+v4", 196, 0.5),
        ("x86_64+v3", 196, 6),
        ("x86_64+v3", 7, 3),
        ("aarch64+neon", 196, 6),
        ("aarch64+neon", 56, 9),
    ],
)
def test_inner_loops_of_convolution_keep_sums_in_registers(
    target: str, width: int, vectors: float
) -> None:
    chosen = parse_target(target)
    vector_bytes = {"v4": 64, "v3": 32}.get(chosen.level, 16)
    tile = choose_tile(registers_of(chosen, vector_bytes), width, vectors)
    shape = f"{tile.pixels}, {tile.whole}, {tile.half}"
    call = f"conv_f32(params, operands, scratch, begin, end, {shape}, 0);"
    source = _KERNEL.format(header="conv_f32.h", call=call)
    text = compile_unit(source, chosen, flags=("-S",)).decode()
    loops = _inner_loops(text)
    steps = max(sum(bool(_FMA.match(line)) for line in loop) for loop in loops)
    assert steps == 4 * tile.pixels * tile.whole
    spilled = [line for loop in loops for line in loop if _STACK.search(line) and _MOVE.match(line)]
    assert not spilled


@pytest.mark.parametrize(
    ("panels", "tasks", "panel_bytes", "wanted"),
    [
        (11, 440, 2688, 11),  # all of a product: short sums, and many products
        (11, 440, 20 << 10, 3),  # those that stay near, as even as they can be
        (8, 8, 4096, 1),  # few tasks: one panel each, so that threads find work
        (1, 40, 1 << 20, 1),
    ],
)
def test_a_task_packs_panels_that_stay_near(
    panels: int, tasks: int, panel_bytes: int, wanted: int
) -> None:
    assert task_panels(panels, tasks, panel_bytes) == wanted
