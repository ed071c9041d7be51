from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.reduce import ReducerAttrs
from tests.runtime import networks


@pytest.fixture(scope="module", params=["cpu", "reference"])
def session(request: pytest.FixtureRequest) -> Session:
    return Session(networks.sum_and_difference(), backends=(request.param, "reference"))


def arrays(*values: float) -> list[np.ndarray]:
    return [np.full((2, 3), value, np.float32) for value in values]


def test_every_call_reads_the_inputs_anew_and_writes_in_place(session: Session) -> None:
    inputs, outputs = arrays(1, 2), arrays(0, 0)
    call = session.bind(inputs, outputs)
    for left, right in ((1, 2), (5, -3), (0.5, 0.25)):
        inputs[0][...], inputs[1][...] = left, right
        call()
        assert (outputs[0] == left + right).all()
        assert (outputs[1] == left - right).all()


def test_outputs_are_made_where_none_are_given(session: Session) -> None:
    call = session.bind(arrays(1, 2))
    call.run()
    assert [out.shape for out in call.outputs] == [(2, 3), (2, 3)]
    assert (call.outputs[0] == 3).all()


def test_inputs_and_outputs_are_bound_by_name(session: Session) -> None:
    (left, right), (total, difference) = arrays(1, 2), arrays(0, 0)
    session.bind({"right": right, "left": left}, {"difference": difference, "sum": total})()
    assert (total == 3).all()
    assert (difference == -1).all()


def test_a_read_only_input_is_fine(session: Session) -> None:
    inputs = arrays(1, 2)
    inputs[0].flags.writeable = False
    call = session.bind(inputs)
    call()
    assert (call.outputs[0] == 3).all()


def test_two_inputs_may_be_one_array(session: Session) -> None:
    (x,) = arrays(4)
    call = session.bind([x, x])
    call()
    assert (call.outputs[0] == 8).all()


def test_calls_of_one_session_do_not_disturb_each_other(session: Session) -> None:
    first, second = session.bind(arrays(1, 2)), session.bind(arrays(10, 20))
    first()
    second()
    assert (first.outputs[0] == 3).all()
    assert (second.outputs[0] == 30).all()


def read_only() -> np.ndarray:
    (array,) = arrays(0)
    array.flags.writeable = False
    return array


def unaligned() -> np.ndarray:
    return np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (read_only(), "read-only"),
        (np.zeros((3, 2), np.float32).T, "not C-contiguous"),
        (unaligned(), "aligned"),
        (np.zeros((2, 3), np.float64), "float64"),
        (np.zeros((3, 2), np.float32), r"\[3, 2\]"),
        ([[0.0] * 3] * 2, "not a numpy array"),
    ],
    ids=["read-only", "transposed", "unaligned", "dtype", "shape", "list"],
)
def test_an_output_that_cannot_be_written_in_place_is_refused(
    session: Session, bad: np.ndarray, text: str
) -> None:
    with pytest.raises(InputError, match=text) as caught:
        session.bind(arrays(1, 2), [np.zeros((2, 3), np.float32), bad])
    assert caught.value.where == "difference"


def test_an_input_that_would_have_to_be_copied_is_refused(session: Session) -> None:
    with pytest.raises(InputError, match="left"):
        session.bind([np.zeros((3, 2), np.float32).T, *arrays(1)])


def test_an_output_that_overlaps_an_input_is_refused(session: Session) -> None:
    left, right, out = arrays(1, 2, 0)
    with pytest.raises(InputError, match=r"shares memory") as caught:
        session.bind([left, right], [out, left])
    assert caught.value.where == "difference"


def test_outputs_that_overlap_are_refused(session: Session) -> None:
    room = np.zeros((3, 3), np.float32)
    with pytest.raises(InputError, match=r"shares memory"):
        session.bind(arrays(1, 2), [room[:2], room[1:]])


def test_the_wrong_number_of_outputs_is_refused(session: Session) -> None:
    with pytest.raises(InputError, match="1 output given, 2 wanted"):
        session.bind(arrays(1, 2), arrays(0))


def cache_session(*, is_read_twice: bool = False, backend: str = "cpu") -> Session:
    """A row is written into a cache at a place, and the cache is added up."""
    made = builder()
    cache = made.input("cache", DType.FLOAT32, (1, 64, 32))
    row = made.input("row", DType.FLOAT32, (1, 1, 32))
    place = made.input("place", DType.INT32, (3,))
    after = made.op("DYNAMIC_UPDATE_SLICE", [cache, row, place], name="after")
    read = cache if is_read_twice else after
    axes = made.constant("axes", np.array([1], np.int32))
    total = made.op("SUM", [read, axes], ReducerAttrs(), name="total")
    return Session(dumps(made.output(total, after).model(), "tflite"), backends=[backend])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_cache_is_changed_where_it_is(backend: str) -> None:
    session = cache_session(backend=backend)
    assert [value.continues for value in session.outputs] == [-1, 0]
    cache, total = np.ones((1, 64, 32), np.float32), np.zeros((1, 32), np.float32)
    row, place = np.full((1, 1, 32), 5, np.float32), np.zeros(3, np.int32)
    call = session.bind([cache, row, place], [total, cache])
    for at in (3, 60):
        place[1] = at
        call()
    assert (total == 62 + 10).all()
    assert (cache.sum((0, 2)) == np.where(np.isin(np.arange(64), (3, 60)), 160, 32)).all()


def test_a_cache_that_is_read_elsewhere_is_not_changed_where_it_is() -> None:
    session = cache_session(is_read_twice=True)
    assert [value.continues for value in session.outputs] == [-1, -1]
    given = [value.empty() for value in session.inputs]
    with pytest.raises(InputError, match="shares memory"):
        session.bind(given, [session.outputs[0].empty(), given[0]])
