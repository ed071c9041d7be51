"""Which groups operators are shown in."""

from __future__ import annotations

import pytest

from circlet.report.names import MOST_TOGETHER, paths


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a", "b"], [(), ()]),
        (["n/b1/x", "n/b1/y", "n/b2/x", "n/b2/y"], [("b1",), ("b1",), ("b2",), ("b2",)]),
        (["b1/x", "b1/y", "alone/z"], [("b1",), ("b1",), ()]),
        (["m/a/b/x", "m/a/b/y", "m/z"], [("a/b",), ("a/b",), ()]),
        (["l.0.q", "l.0.k", "l.1.q", "l.1.k"], [("0",), ("0",), ("1",), ("1",)]),
        (["c/x;other/y", "c/z+c/w", "d/x", "d/y"], [("c",), ("c",), ("d",), ("d",)]),
        (["a/b/1", "a/b/2", "a/c/1", "d/1"], [("a", "b"), ("a", "b"), ("a",), ()]),
    ],
)
def test_groups_follow_the_names(names: list[str], expected: list[tuple[str, ...]]) -> None:
    assert paths(names) == expected


@pytest.mark.parametrize("count", [MOST_TOGETHER, MOST_TOGETHER + 1, 10_000, 30_000])
def test_no_group_holds_more_than_can_be_looked_at(count: int) -> None:
    found = paths([f"op{index}" for index in range(count)])
    inside: dict[tuple[str, ...], set[object]] = {}
    for index, path in enumerate(found):
        for depth in range(len(path)):
            inside.setdefault(path[:depth], set()).add(path[: depth + 1])
        inside.setdefault(path, set()).add(index)
    assert max(map(len, inside.values())) <= MOST_TOGETHER
    if count <= MOST_TOGETHER:
        assert set(found) == {()}
    if count == 10_000:
        assert found[0] == ("1 to 40",)
        assert found[-1] == ("9961 to 10000",)
