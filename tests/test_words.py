"""Counts and names as people read them."""

from __future__ import annotations

import pytest

from circlet.words import counted, shortened


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 boxes"), (1, "1 box"), (2, "2 boxes"), (1234, "1,234 boxes")]
)
def test_a_noun_follows_its_count(count: int, text: str) -> None:
    assert counted(count, "box", "boxes") == text
    assert counted(count, "file") == text.replace("boxes", "files").replace("box", "file")


@pytest.mark.parametrize("most", [12, 44, 60])
def test_a_long_name_keeps_its_beginning_and_more_of_its_end(most: int) -> None:
    name = "encoder/layers/0/attention/self/query/some/more/of/a/path/to/MatMul"
    short = shortened(name, most)
    first, last = short.split("...")
    assert len(short) == most and name.startswith(first) and name.endswith(last)
    assert len(last) > len(first)
    assert shortened(name, len(name)) == name


def test_of_joined_names_the_first_is_shown() -> None:
    assert shortened("conv/Relu;conv/BiasAdd;conv/Conv2D") == "conv/Relu;..."
