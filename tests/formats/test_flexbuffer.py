"""The reader of custom options, against the writer of the flatbuffers package."""

from __future__ import annotations

import random

import pytest

from circlet.errors import FormatError
from circlet.formats.flexbuffer import flexbuffer, read_map

flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="flatbuffers is not installed")

VALUES: dict[str, object] = {
    "none": None,
    "yes": True,
    "small": 3,
    "negative": -70000,
    "big": (1 << 62) + 1,
    "real": 1.5,
    "text": "häh",
    "blob": b"abc",
    "numbers": [1, 2, 300],
    "reals": [0.5, 0.25],
    "mixed": [1, "a", 2.5, True, None, {"inner": [0.5, 0.25]}],
    "empty": {},
    "nothing": [],
}


def test_every_kind_of_value_is_read() -> None:
    assert flexbuffer(bytes(flexbuffers.Dumps(VALUES))) == VALUES


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "text", [1, 2], ["a", "b"], {"a": 1}, None])
def test_any_value_may_be_the_root(value: object) -> None:
    assert flexbuffer(bytes(flexbuffers.Dumps(value))) == value


def test_no_bytes_are_no_value() -> None:
    assert flexbuffer(b"") is None


def test_a_map_of_scalars_leaves_out_the_rest() -> None:
    known = read_map(bytes(flexbuffers.Dumps(VALUES)))
    assert known == {
        name: value for name, value in VALUES.items() if isinstance(value, bool | int | float | str)
    }
    with pytest.raises(FormatError):
        read_map(bytes(flexbuffers.Dumps([1, 2])))


def test_damaged_bytes_are_read_or_refused() -> None:
    generator = random.Random(0)
    whole = bytes(flexbuffers.Dumps(VALUES))
    refused = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            flexbuffer(bytes(damaged))
        except FormatError:
            refused += 1
    assert 0 < refused < 3000


@pytest.mark.parametrize("cut", range(1, 12))
def test_truncated_bytes_are_refused(cut: int) -> None:
    whole = bytes(flexbuffers.Dumps({"idx": 3, "val": 1.5}))
    with pytest.raises(FormatError):
        read_map(whole[cut - len(whole) :][:-1])
