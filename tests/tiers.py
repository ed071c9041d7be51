"""Which cases of a table the quick run tries; the slow run tries the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


def slow(*cases: object) -> list[object]:
    """Values for `parametrize` that the slow run tries."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def quick_of(cases: Iterable[object], quick: Collection[object]) -> list[object]:
    """Values for `parametrize`, of which the quick run tries some."""
    return [value for case in cases for value in ([case] if case in quick else slow(case))]
