"""Loops that end by what they compute, with results that grow: native, and what numpy gives."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import circlet
from circlet.limits import DEFAULT_LIMITS
from tests.formats.loop_nets import (
    MOST,
    WIDTH,
    WORDS,
    adding,
    caching,
    collecting,
    decoding,
    filling,
    halving,
    keeping,
    repeating,
    searching,
    telling,
)

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
NEVER = np.array(WORDS)  # a word that there is not


def floats(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, sizes).astype(np.float32)


def words(rows: int) -> np.ndarray:
    return np.arange(rows)[:, None] % WORDS


def check(data: bytes, *runs: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Results of native runs of one session, which are ONNX Runtime's."""
    session = circlet.Session(data, cache=False, threads=2)
    assert {row["backend"] for row in session.placement} == {"cpu"}
    peer = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [value.name for value in peer.get_inputs()]
    results = []
    for given in runs:
        results.append(session.run(given))
        wanted = peer.run(None, dict(zip(names, given, strict=True)))
        for made, array in zip(results[-1].values(), wanted, strict=True):
            assert made.shape == array.shape
            np.testing.assert_allclose(made, array, rtol=1e-4, atol=1e-4)
    return results


def collected(end: int, start: bool = True) -> list[np.ndarray]:
    return [floats(WIDTH), np.array(end), np.array(start)]


def test_rows_are_collected_until_a_turn_ends_the_loop() -> None:
    ends = (5, 30, 1, 99)
    made = check(collecting(30), *map(collected, ends), collected(9, start=False))
    assert [len(results["rows"]) for results in made] == [5, 30, 1, 30, 0]


@lru_cache(maxsize=4)
def sixth_word(rows: int, *, attends: bool) -> np.ndarray:
    """A word that one row gives in its sixth turn at the latest."""
    data = decoding(rows, 6, attends=attends)
    session = circlet.Session(data, backends=("reference",), cache=False)
    found = session.run([floats(rows, WIDTH), words(rows), NEVER])["words_out"]
    return np.array(found[0, -1])


@pytest.mark.parametrize("attends", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_words_are_joined_turn_by_turn(rows: int, attends: bool) -> None:
    given = [floats(rows, WIDTH), words(rows)]
    data = decoding(rows, 20, attends=attends)
    ended, whole = check(data, [*given, sixth_word(rows, attends=attends)], [*given, NEVER])
    assert whole["words_out"].shape == (rows, 21)
    assert rows > 1 or ended["words_out"].shape[1] <= 7


def test_a_bound_in_the_condition_is_found() -> None:
    given = [floats(2, WIDTH), words(2), NEVER]
    (made,) = check(decoding(2, MOST, length=12), given)
    assert made["words_out"].shape == (2, 13)


@pytest.mark.parametrize("most", [MOST, "most", 10**6])
def test_loops_of_unknown_turns_have_the_room_that_they_need(most: int | str) -> None:
    more = [np.array(400)] if isinstance(most, str) else []
    made = check(collecting(most), *([*collected(end), *more] for end in (5, 100, 7)))
    assert [len(results["rows"]) for results in made] == [5, 100, 7]


def test_a_length_may_be_an_input() -> None:
    given = [floats(2, WIDTH), words(2), NEVER]
    made = check(decoding(2, MOST, length="length"), *([*given, np.array(n)] for n in (9, 70)))
    assert [results["words_out"].shape for results in made] == [(2, 10), (2, 71)]


def test_caches_grow_with_the_words() -> None:
    made = check(caching(2, 4), *([words(1), np.array(length)] for length in (12, 2)))
    assert [results["keys_out"].shape[2] for results in made] == [11, 1]


def test_rows_may_get_their_sizes_from_the_first_one() -> None:
    yes, no = np.array(True), np.array(False)
    runs = [[words(2), np.array(length), yes] for length in (5, 80)]
    made = check(telling(2), *runs)
    assert [len(results["shares_out"]) for results in made] == [5, 80]
    session = circlet.Session(telling(2), cache=False)
    reference = circlet.Session(telling(2), backends=("reference",), cache=False)
    for name, array in reference.run([words(2), np.array(5), no]).items():
        assert session.run([words(2), np.array(5), no])[name].shape == array.shape


@pytest.mark.parametrize("times", [1, 2])
def test_a_loop_ends_by_the_size_of_what_grows(times: int) -> None:
    made = check(filling("most", times), *([floats(3, 1), np.array(n)] for n in (99, 4, 0)))
    assert [len(results["rows_out"]) for results in made] == [19 + times, 3 + 4 * times, 3]


@pytest.mark.parametrize("start", ["", "start"])
def test_a_loop_of_no_turn_gives_stacks_of_none(start: str) -> None:
    (made,) = check(filling(0, 1, start=start), [floats(3, 1), *[np.array(True)] * bool(start)])
    assert made["rows_out"].shape == (3, 1) and made["counts"].shape == (0,)


def test_a_loop_within_a_loop_has_room_of_its_own() -> None:
    check(halving(), [np.array([1, 0.001, 30, 5, 0.1, 2], np.float32)])


def test_what_a_bound_call_updates_in_place_is_updated_once() -> None:
    session = circlet.Session(adding(), cache=False, threads=1)
    made, count = np.zeros(4, np.float32), np.array(5)
    call = session.bind([made, count], [made, np.zeros((), np.float32)])
    for number, turns in enumerate((5, 100, 5000, 7), 1):
        count[...] = turns
        call()
        assert made[0] == number and call.outputs[1] == sum(range(turns))


def test_the_number_of_turns_may_be_an_input() -> None:
    made = check(repeating(), *([floats(WIDTH), np.array(count)] for count in (4, 0, 66)))
    assert [len(results["rows"]) for results in made] == [4, 0, 66]


def test_a_size_that_turns_change_and_restore_is_known() -> None:
    data = keeping()
    assert circlet.Session(data, cache=False).outputs[0].shape == (2, 4)
    check(data, *([floats(2, 4), np.array(end)] for end in (1, 6)))


def test_beams_take_over_each_others_words() -> None:
    given = [words(4), np.array([0, -9, -9, -9], np.float32)]
    low, high = (np.array(floor, np.float32) for floor in (-1e9, -12))
    made = check(searching(4, 15), [*given, low], [*given, high])
    assert made[0]["words_out"].shape == (4, 16)
    assert made[1]["words_out"].shape[1] < 16


def test_a_loop_with_too_much_room_is_left_to_numpy_with_the_reason() -> None:
    data, end = decoding(1, MOST, length=1000), sixth_word(1, attends=False)
    limits = DEFAULT_LIMITS._replace(tensor_bytes=4096)
    session = circlet.Session(data, cache=False, limits=limits, threads=1)
    refused = [str(row["refused"]) for row in session.placement if row["kind"] == "WHILE"]
    assert any("might take" in why for why in refused)
    assert session.run([floats(1, WIDTH), words(1), end])["words_out"].shape[1] <= 7
