from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError
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
    with pytest.raises(InputError, match="1 outputs given, 2 wanted"):
        session.bind(arrays(1, 2), arrays(0))
