from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, RawAttrs
from circlet.ops.build import builder
from circlet.ops.philox import Philox
from circlet.ops.random import RandomAttrs
from tests.strings import litert_results

SEEDS = [(1, 0), (0, 7), (-3, 1 << 40), ((1 << 63) - 1, -(1 << 63))]


def sized(
    kind: str, seeds: tuple[int, int], sizes: tuple[int, ...], is_open: bool = False
) -> bytes:
    b = builder()
    given = b.input("sizes", DType.INT32, (len(sizes),))
    wanted = given if is_open else b.constant("shape", np.array(sizes, np.int32))
    y = b.op(kind, [wanted], RandomAttrs(*seeds), name="y", dtype=DType.FLOAT32)
    return dumps(b.output(y, b.op("NEG", [given], name="z")).model(), "tflite")


def drawn(session: Session, sizes: tuple[int, ...]) -> np.ndarray:
    return session.run([np.array(sizes, np.int32)])["y"]


def test_philox_is_that_of_its_authors() -> None:
    """The known answers of Random123 for counters and keys of zeros and of ones."""
    assert [*map(hex, Philox(0, 0).draw(1)[0])] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    generator = Philox((1 << 128) - 1, (1 << 64) - 1)
    words = generator.draw(2)
    assert [*map(hex, words[0])] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]
    assert generator.counter == 1
    np.testing.assert_array_equal(words[1], Philox(0, (1 << 64) - 1).draw(1)[0])


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("sizes", [(3, 5), (1,), (2, 0), (40, 25)])
@pytest.mark.parametrize("kind", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_numbers_are_those_of_litert(
    kind: str, sizes: tuple[int, ...], seeds: tuple[int, int]
) -> None:
    content = sized(kind, seeds, sizes)
    session = Session(content)
    for runs in (1, 2, 3):
        result = drawn(session, sizes)
        peer = litert_results(content, [np.array(sizes, np.int32)], runs)[0]
        np.testing.assert_array_equal(result, peer)


def test_many_normal_numbers_are_those_of_litert() -> None:
    content = sized("RANDOM_STANDARD_NORMAL", (5, 6), (100_000,))
    result = drawn(Session(content), (100_000,))
    peer = litert_results(content, [np.array([100_000], np.int32)])[0]
    np.testing.assert_array_equal(result, peer)
    assert abs(result.mean()) < 0.02 and abs(result.std() - 1) < 0.02


def test_sizes_that_are_computed_are_taken() -> None:
    content = sized("RANDOM_UNIFORM", (1, 2), (7, 3), is_open=True)
    result = drawn(Session(content), (7, 3))
    np.testing.assert_array_equal(result, litert_results(content, [np.array([7, 3], np.int32)])[0])
    with pytest.raises(GraphError, match="negative"):
        drawn(Session(content), (7, -3))


def test_a_reset_starts_at_the_seeds_again() -> None:
    session = Session(sized("RANDOM_UNIFORM", (1, 2), (9,)))
    first, second = drawn(session, (9,)), drawn(session, (9,))
    assert session.is_stateful and not np.array_equal(first, second)
    session.reset()
    np.testing.assert_array_equal(drawn(session, (9,)), first)


def test_without_seeds_nothing_comes_twice() -> None:
    content = sized("RANDOM_UNIFORM", (0, 0), (9,))
    results = [drawn(session, (9,)) for session in [Session(content)] * 2 + [Session(content)]]
    assert len({result.tobytes() for result in results}) == 3
    assert all(((result >= 0) & (result < 1)).all() for result in results)


def samples(dtype: DType, seeds: tuple[int, int], count: int) -> bytes:
    b = builder()
    logits = b.input("logits", DType.FLOAT32, (3, 5))
    number = b.constant("count", np.array(count, np.int32))
    attrs = RandomAttrs(*seeds)
    return dumps(
        b.output(b.op("MULTINOMIAL", [logits, number], attrs, name="y", dtype=dtype)).model(),
        "tflite",
    )


@pytest.mark.parametrize("count", [1, 7, 1000])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64])
def test_classes_are_those_of_litert(dtype: DType, count: int) -> None:
    content = samples(dtype, (3, 4), count)
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    logits[1, :3] = -np.inf, np.nan, np.inf
    session = Session(content)
    for runs in (1, 2):
        (result,) = session.run([logits]).values()
        assert result.dtype == dtype.numpy
        np.testing.assert_array_equal(result, litert_results(content, [logits], runs)[0])


def test_no_classes_may_be_asked_for() -> None:
    logits = np.zeros((3, 5), np.float32)
    (result,) = Session(samples(DType.INT32, (3, 4), 0)).run([logits]).values()
    assert result.shape == (3, 0)


def test_a_seeded_generator_in_a_branch_is_refused() -> None:
    branches = []
    for name in ("then", "else"):
        b = builder(name)
        sizes = b.constant("sizes", np.array([2], np.int32))
        y = b.op("RANDOM_UNIFORM", [sizes], RandomAttrs(1, 2), name="y", dtype=DType.FLOAT32)
        branches.append(b.output(y).build())
    b = builder()
    flag = b.input("flag", DType.BOOL, ())
    y = b.op("IF", [flag], RawAttrs("IfOptions"), name="y", dtype=DType.FLOAT32, shape=(2,))
    b.graph.ops[-1].regions = branches
    graphs: list[Graph] = [b.output(y).build(), *branches]
    with pytest.raises(GraphError, match="inside of branches"):
        Session(dumps(Model(graphs), "tflite"))
