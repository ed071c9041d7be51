from __future__ import annotations

import pytest

from circlet.backends.cpu.loops import Loops

SPANS = [(5, 8), (3, 12), (14, 20), (16, 18)]


@pytest.mark.parametrize(
    ("first", "last", "end"),
    [
        (0, 2, 2),  # before all loops
        (4, 6, 8),  # made in the outer loop, read in the inner one
        (0, 6, 12),  # made before both
        (6, 7, 7),  # lives in one turn
        (0, 12, 12),
        (0, 13, 13),  # read between loops
        (13, 17, 20),
        (15, 17, 18),
        (5, 6, 6),
    ],
)
def test_what_a_loop_reads_is_needed_until_it_ends(first: int, last: int, end: int) -> None:
    assert Loops(SPANS).end_of(first, last) == end
