"""Backends that fail, hang, or give another shape: coded errors, or others take over."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from circlet import Session
from circlet.backends.cpu.backend import CpuBackend
from circlet.errors import BackendError, CircletError, DeadlineError, InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.build import builder
from tests.cli.call import as_json
from tests.runtime.faulty import Behaviour, installed
from tests.runtime.networks import mixed, tflite

BACKENDS = ("faulty", "cpu", "reference")
GIVEN = [np.linspace(-2, 2, 10, dtype=np.float32).reshape(2, 5)]
LIMITED = DEFAULT_LIMITS._replace(run_seconds=0.3)
PREPARING = ("compiler", "supports", "optimize", "compile", "load", "bind")


@pytest.fixture
def faulty() -> Iterator[Behaviour]:
    with installed(Behaviour()) as behaviour:
        yield behaviour


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    (answer,) = Session(mixed(), backends=["reference"]).run(GIVEN).values()
    return answer


def opened(fallback: tuple[str, ...] = (), **options: object) -> Session:
    return Session(mixed(), backends=BACKENDS, fallback=fallback, cache=False, **options)  # type: ignore[arg-type]


def reasons(session: Session) -> list[list[list[str]]]:
    rows = [row for row in session.placement if row["kind"] == "TANH"]
    return [list(row["refused"]) for row in rows]  # type: ignore[call-overload]


def assert_answers(session: Session, wanted: np.ndarray) -> None:
    (got,) = session.run(GIVEN).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_sound_backend_from_outside_runs_its_operators(
    faulty: Behaviour, wanted: np.ndarray
) -> None:
    session = opened()
    assert reasons(session) == [[]]
    assert_answers(session, wanted)
    assert faulty.log == ["run"]


@pytest.mark.parametrize("executor", ["linear", "parallel"])
@pytest.mark.parametrize("stage", [*PREPARING, "run"])
def test_an_error_names_the_backend_and_its_operators(
    faulty: Behaviour, stage: str, executor: str
) -> None:
    faulty.fails = {stage}
    with pytest.raises(BackendError, match="on fire") as caught:
        opened(executor=executor).run(GIVEN)
    assert caught.value.backend == "faulty"
    assert "backend faulty" in caught.value.where
    if stage not in ("compiler", "supports"):
        assert "layer1" in caught.value.where
    assert f"OSError: the device is on fire in {stage}" in caught.value.why


@pytest.mark.parametrize("raises", [KeyError, TypeError, ValueError])
def test_what_a_backend_raises_while_it_loads_is_no_damage_of_the_artifact(
    faulty: Behaviour, wanted: np.ndarray, raises: type[Exception]
) -> None:
    faulty.fails, faulty.raises = {"load"}, raises
    with pytest.raises(BackendError, match=f"{raises.__name__}: .*on fire in load") as caught:
        opened()
    assert caught.value.backend == "faulty" and "layer1" in caught.value.where
    assert_answers(opened(("reference",)), wanted)


@pytest.mark.parametrize("stage", [*PREPARING, "run"])
def test_another_backend_takes_over_and_the_table_says_why(
    faulty: Behaviour, wanted: np.ndarray, stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    faulty.fails = {stage}
    with caplog.at_level(logging.WARNING):
        session = opened(("reference",))
        assert_answers(session, wanted)
    assert "take over from backend faulty" in caplog.text
    ((refused,),) = reasons(session)
    name, why = refused
    assert name == "faulty" and f"the device is on fire in {stage}" in why
    assert_answers(session, wanted)
    assert_answers(session.resized({"x": (2, 5)}), wanted)


def test_a_cached_plan_is_taken_over_too(faulty: Behaviour, wanted: np.ndarray) -> None:
    for stage in ("", "load", "toolchain"):
        faulty.fails = {stage}
        session = Session(mixed(), backends=BACKENDS, fallback=["reference"])
        assert_answers(session, wanted)
        assert bool(reasons(session)[0]) == (stage == "load")


def test_a_missing_backend_is_taken_over(wanted: np.ndarray) -> None:
    names = ["missing", "cpu"]
    with pytest.raises(InputError, match="no such backend"):
        Session(mixed(), backends=names)
    session = Session(mixed(), backends=names, fallback=["reference"])
    assert "there is no such backend" in str(reasons(session))
    assert_answers(session, wanted)
    rules = {"TANH": "missing"}
    assert_answers(Session(mixed(), backends=["cpu"], backend_of=rules, fallback=["cpu"]), wanted)


def test_where_all_fail_the_last_error_is_told(
    faulty: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiler(backend: CpuBackend, job: object) -> None:
        raise ValueError("this one fails, too")

    faulty.fails = {"compile"}
    monkeypatch.setattr(CpuBackend, "compiler", compiler)
    with pytest.raises(CircletError) as caught:
        Session(tflite_tanh(), backends=["faulty"], fallback=["cpu"], cache=False)
    assert caught.value.backend == "cpu"
    with pytest.raises(InputError, match="strict"):
        opened(("reference",), strict=True)


def test_a_bound_call_goes_on_with_the_same_arrays(faulty: Behaviour, wanted: np.ndarray) -> None:
    session = opened(("reference",))
    bound = session.bind(GIVEN)
    bound()
    faulty.fails = {"run"}
    bound.outputs[0][...] = 0
    bound()
    np.testing.assert_allclose(bound.outputs[0], wanted, rtol=1e-6)
    bound.run()
    assert "on fire" in str(reasons(session))


@pytest.mark.parametrize("shape", [(2, 4), (2, 5, 1), (1,)])
def test_a_result_of_another_shape_is_an_error(
    faulty: Behaviour, wanted: np.ndarray, shape: tuple[int, ...]
) -> None:
    faulty.shape = shape
    with pytest.raises(BackendError, match="another shape") as caught:
        opened().run(GIVEN)
    assert str(list(shape)) in caught.value.why
    assert_answers(opened(("reference",)), wanted)


def test_a_result_in_another_array_is_taken(faulty: Behaviour) -> None:
    faulty.shape = (2, 5)
    (got,) = opened().run(GIVEN).values()
    np.testing.assert_array_equal(got, np.zeros((2, 5)))


@pytest.mark.parametrize("executor", ["linear", "parallel"])
def test_a_timeout_is_kept_where_a_backend_hangs(faulty: Behaviour, executor: str) -> None:
    session = opened(executor=executor)
    session.run(GIVEN, timeout=60)
    faulty.hangs = True
    with pytest.raises(DeadlineError, match="did not come back") as caught:
        session.run(GIVEN, timeout=0.05)
    assert caught.value.backend == "faulty"
    with pytest.raises(BackendError, match="earlier run"):
        session.run(GIVEN)
    bound = opened(limits=LIMITED).bind(GIVEN)
    with pytest.raises(DeadlineError):
        bound()
    with pytest.raises(BackendError, match="earlier run"):
        bound()


def test_others_take_over_from_a_backend_that_hangs(faulty: Behaviour, wanted: np.ndarray) -> None:
    session = opened(("reference",))
    faulty.hangs = True
    with pytest.raises(DeadlineError):
        session.run(GIVEN, timeout=0.05)
    assert_answers(session, wanted)
    bound = opened(("reference",), limits=LIMITED).bind(GIVEN)
    with pytest.raises(DeadlineError):
        bound()
    bound()
    np.testing.assert_allclose(bound.outputs[0], wanted, rtol=1e-6)


def test_what_comes_back_late_writes_where_nobody_reads(faulty: Behaviour) -> None:
    session = opened(limits=LIMITED)
    bound = session.bind(GIVEN)
    faulty.hangs = True
    faulty.parted.clear()
    with pytest.raises(DeadlineError):
        bound()
    bound.outputs[0][...] = 7
    assert faulty.parted.wait(60)
    faulty.gate.set()
    assert faulty.ended.wait(60)
    np.testing.assert_array_equal(bound.outputs[0], np.full((2, 5), 7, np.float32))


def test_a_network_with_state_is_not_run_again(faulty: Behaviour) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (4,))
    state = b.variable("state", DType.FLOAT32, (4,))
    total = b.op("ADD", [b.op("TANH", [x], name="tanh"), state], name="y")
    source = dumps(b.output(total).model(), "tflite")
    session = Session(source, backends=BACKENDS, fallback=["reference"], cache=False)
    given = [np.ones(4, np.float32)]
    session.run(given)
    faulty.fails = {"run"}
    assert session.is_stateful
    with pytest.raises(BackendError, match="on fire"):
        session.run(given)


def test_what_an_observer_raises_is_no_failure_of_the_backend(faulty: Behaviour) -> None:
    session = Session(tflite_tanh(), backends=["reference"], fallback=["cpu"], cache=False)

    def stop(seen: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.run([np.ones(4, np.float32)], observer=stop)
    assert session.options.failed == ()


def tflite_tanh() -> bytes:
    b = builder()
    return tflite(b.output(b.op("TANH", [b.input("x", DType.FLOAT32, (4,))], name="y")))


def test_the_command_takes_backends_that_take_over(faulty: Behaviour) -> None:
    faulty.fails = {"compile"}
    report = as_json("run", "--backend", "faulty,cpu,reference", "--fallback", "reference")
    assert report["native_ops"] > 0


def test_a_fallback_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="no such backend"):
        Session(tflite_tanh(), backends=["reference"], fallback=["nosuch"], cache=False)
