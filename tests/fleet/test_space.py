"""What a search may choose, and configurations made of choices."""

from __future__ import annotations

import pytest

from circlet.errors import InputError
from circlet.fleet.space import Space, space_of
from circlet.options import Options
from circlet.placement.problem import Setting
from circlet.sample import Sample

MODEL = Sample().model_path
SPACE = Space(
    (
        (("a",), ("cpu", "reference")),
        (("b", "c"), ("reference",)),
        (("d",), ()),
        (("e",), ("cpu", "reference")),
    ),
    ("cpu", "reference"),
    (1, 2),
    ("O2",),
)


@pytest.mark.smoke
def test_a_network_has_a_group_for_each_operator_with_the_backends_that_take_it() -> None:
    found = space_of(MODEL, Options(backends=("cpu", "reference")), [1, 2], ["O2", "O0"])
    sources = [name for names, _ in found.groups for name in names]
    assert sorted(sources) == sorted(
        ["conv", "depthwise", "pointwise", "features", "flatten", "classifier", "probabilities"]
    )
    assert {choices for _, choices in found.groups} == {("cpu", "reference")}
    assert found.parameters()["level"] == ("O2", "O0")


def test_only_what_leaves_a_choice_is_a_parameter() -> None:
    both = ("cpu", "reference")
    assert SPACE.parameters() == {"unit0": both, "unit3": both, "threads": (1, 2)}


def test_a_configuration_places_every_source_that_a_backend_takes() -> None:
    found = SPACE.configuration({"unit0": "cpu", "unit3": "reference", "threads": 2})
    assert found.placement == {
        "a": "cpu",
        "b": "reference",
        "c": "reference",
        "e": "reference",
    }
    assert found.setting == Setting(threads=2, level="O2")


def test_a_search_starts_with_each_backend_by_itself() -> None:
    assert [*SPACE.starts()] == [
        {"unit0": "cpu", "unit3": "cpu", "threads": 1},
        {"unit0": "reference", "unit3": "reference", "threads": 1},
    ]


def test_what_is_untried_is_found_until_nothing_is_left() -> None:
    tried: set[tuple[object, ...]] = set()
    while (choices := SPACE.untried(tried, len(tried))) is not None:
        row = tuple(choices.values())
        assert row not in tried and [*choices] == ["unit0", "unit3", "threads"]
        tried.add(row)
    assert len(tried) == 8


def test_a_large_space_is_drawn_from() -> None:
    group = (("x",), ("cpu", "reference"))
    large = SPACE._replace(groups=(group,) * 64)
    first, second = large.untried(set(), 1), large.untried(set(), 2)
    assert first is not None and second is not None and first != second
    assert large.untried(set(), 1) == first


def test_a_search_without_choices_is_an_error() -> None:
    with pytest.raises(InputError, match="nothing to choose"):
        space_of(MODEL, Options(), [], ["O2"])
