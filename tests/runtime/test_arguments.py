"""Arguments of other types than wanted end in coded errors, wherever users can pass one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import circlet
from circlet import Session
from circlet.errors import InputError
from circlet.limits import Limits
from tests.runtime import networks

X = np.zeros(6, np.float32)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(networks.relu())


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == "E-INPUT"
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", "2"),
        ("threads", 2.5),
        ("tune_seconds", "5"),
        ("tune_seconds", None),
        ("tune_seconds", float("nan")),
        ("backends", "cpu"),
        ("backends", None),
        ("strict", "no"),
        ("target", None),
        ("target", ["native"]),
        ("cache", "yes"),
        ("shapes", [1]),
        ("limits", None),
        ("limits", 5),
        ("signature", None),
        ("signature", 5),
        ("level", 2),
        ("level", []),
        ("precision", 16),
    ],
)
def test_an_option_of_a_wrong_type_is_named(name: str, value: Any) -> None:
    assert f"where: {name}" in refusal(lambda: Session(networks.relu(), **{name: value}))


def test_a_precision_is_checked_whoever_runs_the_operators() -> None:
    text = refusal(lambda: Session(networks.relu(), backends=["reference"], precision="f8"))
    assert "precision" in text


@pytest.mark.parametrize("sizes", [5, "abc", [1.5], None, [None]])
def test_sizes_that_are_no_whole_numbers_are_refused(session: Session, sizes: Any) -> None:
    for call in (session.resized, lambda shapes: Session(networks.relu(), shapes=shapes)):
        assert "whole numbers" in refusal(partial(call, {"x": sizes}))


@pytest.mark.parametrize("limits", [{"tensor_bytes": "5"}, {"run_seconds": "5"}])
def test_limits_of_a_wrong_type_are_named(limits: dict[str, Any]) -> None:
    name = next(iter(limits))
    assert f"limits.{name}" in refusal(lambda: Session(networks.relu(), limits=Limits(**limits)))


@pytest.mark.parametrize("source", [None, 5, X, ["a"], object()], ids=type)
def test_a_source_that_is_neither_path_nor_bytes_is_refused(source: Any) -> None:
    for way_in in (Session, circlet.load):
        assert "source" in refusal(partial(way_in, source))


@pytest.mark.parametrize("given", [None, 5, iter([X]), X[None]], ids=type)
def test_inputs_that_are_no_list_are_refused(session: Session, given: Any) -> None:
    for call in (session.run, session.bind):
        assert "a list or a dict" in refusal(partial(call, given))
    if given is not None:
        assert "outputs" in refusal(lambda: session.bind([X], given))


@pytest.mark.parametrize("value", [None, "text", [None] * 6])
def test_an_input_without_numbers_is_told_what_is_wanted(session: Session, value: Any) -> None:
    assert "pass an array of float32" in refusal(lambda: session.run([value]))


def test_a_tensor_that_numpy_cannot_read_is_refused(session: Session) -> None:
    class OfAnotherEngine:
        def __array__(self, *arguments: object, **named: object) -> np.ndarray:
            raise RuntimeError("it is elsewhere")

    assert "it is elsewhere" in refusal(lambda: session.run([OfAnotherEngine()]))


@pytest.mark.parametrize("timeout", ["5", [1], float("nan")])
def test_a_timeout_must_be_a_number(session: Session, timeout: Any) -> None:
    assert "timeout" in refusal(lambda: session.run([X], timeout=timeout))


@pytest.mark.parametrize("timeout", [float("inf"), 1e300])
def test_a_timeout_may_be_longer_than_any_run(session: Session, timeout: float) -> None:
    assert session.run([X], timeout=timeout)["y"].max() == 0


@pytest.mark.parametrize("shapes", [None, 5, [[6]]], ids=repr)
def test_sizes_without_names_are_refused(session: Session, shapes: Any) -> None:
    assert "a dict of sizes" in refusal(lambda: session.resized(shapes))


def test_a_signature_of_a_wrong_type_is_refused(session: Session) -> None:
    assert "signature" in refusal(lambda: session.entered(5))  # type: ignore[arg-type]


def test_files_are_read_and_written_by_path() -> None:
    model = circlet.load(networks.relu())
    calls: dict[str, Callable[..., object]] = {
        "path": lambda: circlet.save(model, None),  # type: ignore[arg-type]
        "model": lambda: circlet.save(5, "x.circle"),  # type: ignore[arg-type]
        "limits": lambda: circlet.load("x.tflite", 5),  # type: ignore[arg-type]
        "data": lambda: circlet.flexbuffer("text"),  # type: ignore[arg-type]
    }
    for where, call in calls.items():
        assert where in refusal(call)
