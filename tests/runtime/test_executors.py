"""Executors: the same answers, errors and observations, whatever runs side by side."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import BackendError, CancelledError, DeadlineError, InputError
from circlet.formats import dumps
from circlet.ir import DType, Model
from circlet.ops.build import builder
from circlet.options import EXECUTORS, Options
from circlet.sample import Sample
from tests.cli.call import as_json
from tests.recurrent import steps_for
from tests.runtime.faulty import Behaviour, installed
from tests.runtime.networks import tflite
from tests.runtime.test_state import graph as recurrent_graph
from tests.runtime.towers import image, towers


@pytest.fixture(scope="module")
def model() -> bytes:
    return towers((2, 2, 1))


@pytest.fixture(scope="module")
def wanted(model: bytes) -> np.ndarray:
    (answer,) = Session(model, threads=1).run([image()]).values()
    return answer


@pytest.fixture
def faulty() -> Iterator[Behaviour]:
    with installed(Behaviour()) as behaviour:
        yield behaviour


def workers() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("circlet-worker")}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_answers_are_the_same_bit_for_bit(
    model: bytes, wanted: np.ndarray, executor: str, threads: int
) -> None:
    session = Session(model, executor=executor, threads=threads)
    for _ in range(3):
        (got,) = session.run([image()]).values()
        np.testing.assert_array_equal(got, wanted)
    bound = session.bind([image()])
    for _ in range(3):
        bound.outputs[0][...] = 0
        bound()
        np.testing.assert_array_equal(bound.outputs[0], wanted)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_answers_of_mixed_backends_are_the_same(model: bytes, executor: str) -> None:
    rules = {r"tower.\.0.*": "reference", "TANH": "reference"}
    plain = Session(model, backend_of=rules, threads=2)
    mixed = Session(model, backend_of=rules, executor=executor, threads=2)
    assert {row["backend"] for row in mixed.placement} == {"cpu", "reference"}
    for seed in range(3):
        given = [image(seed=seed)]
        np.testing.assert_array_equal(mixed.run(given)["y"], plain.run(given)["y"])


def test_only_a_parallel_plan_is_cut_along_its_heavy_branches(model: bytes) -> None:
    counts = {
        executor: len(Session(model, executor=executor).opened.partitions) for executor in EXECUTORS
    }
    assert counts["linear"] == counts["dataflow"] == 1 < counts["parallel"]
    sample = Sample().model_path
    assert len(Session(sample, executor="parallel").opened.partitions) == 1


def test_branches_run_at_the_same_time(faulty: Behaviour) -> None:
    b, size = builder(), 1 << 19
    x = b.input("x", DType.FLOAT32, (size,))
    slow = b.op("TANH", [x], name="slow")
    quick = b.op("RELU", [x], name="quick")
    source = tflite(b.output(b.op("ADD", [slow, quick], name="y")))
    backends = ["faulty", "reference"]
    session = Session(source, backends=backends, executor="parallel", threads=2, cache=False)
    session.run([np.ones(size, np.float32)])
    faulty.hangs = True
    ran = threading.Event()
    inner = session.opened.partitions
    call = session._network.idle[0].execution
    number = [part.ops for part in inner].index(["quick"])
    runner = call._runners[number]
    plain = runner.run

    def run(timeout_ns: int = 0) -> None:
        plain(timeout_ns)
        ran.set()
        faulty.gate.set()  # the other branch goes on only when this one has run

    runner.run = run  # type: ignore[misc]
    answer = session.run([np.ones(size, np.float32)])["y"]
    assert ran.is_set()
    np.testing.assert_allclose(answer, np.tanh(1) + 1, rtol=1e-6)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_state_goes_on_in_order(executor: str) -> None:
    source = dumps(Model([recurrent_graph()]), "tflite")
    rules = {"SVDF": "reference"}
    plain = Session(source, backend_of=rules)
    other = Session(source, backend_of=rules, executor=executor, threads=2)
    assert other.is_stateful and len(other.opened.partitions) > 1
    steps = steps_for(recurrent_graph(), 4)
    for _ in range(2):
        for step in steps:
            found = other.run(step)
            for name, wanted in plain.run(step).items():
                np.testing.assert_array_equal(found[name], wanted)
        plain.reset()
        other.reset()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_observer_is_told_of_every_operator_in_a_fixed_order(
    model: bytes, executor: str
) -> None:
    session = Session(model, executor=executor, threads=2, level="O0")
    plain = Session(model, threads=2, level="O0")
    told: list[list[str]] = []
    for each in (session, session, plain):
        names: list[str] = []
        each.run([image()], observer=lambda seen, names=names: names.append(seen.name))  # type: ignore[misc]
        told.append(names)
    assert told[0] == told[1] and sorted(told[0]) == sorted(told[2])

    def stop(seen: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.run([image()], observer=stop)
    session.run([image()])


@pytest.mark.parametrize("executor", ["linear", "parallel"])
def test_timeouts_and_cancelling_stop_all_branches(executor: str) -> None:
    source = towers((12, 12), 64)
    session = Session(source, executor=executor, threads=2)
    given = [image(64)]
    wanted = session.run(given)["y"]
    with pytest.raises(DeadlineError):
        session.run(given, timeout=1e-6)
    bound = session.bind(given)
    is_over = threading.Event()

    def cancel_again_and_again() -> None:  # between two calls it stops none
        while not is_over.wait(0.001):
            bound.cancel()

    thread = threading.Thread(target=cancel_again_and_again)
    thread.start()
    with pytest.raises(CancelledError):
        while True:
            bound()
    is_over.set()
    thread.join()
    np.testing.assert_array_equal(session.run(given)["y"], wanted)
    bound()
    np.testing.assert_array_equal(bound.outputs[0], wanted)


def test_the_first_error_ends_the_run_and_the_next_one_is_right(faulty: Behaviour) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (8,))
    left = b.op("TANH", [b.op("RELU", [x], name="a")], name="left")
    right = b.op("RELU", [b.op("ABS", [x], name="c")], name="right")
    source = tflite(b.output(b.op("ADD", [left, right], name="y")))
    session = Session(
        source, backends=["faulty", "cpu"], executor="parallel", threads=2, cache=False
    )
    given = [np.linspace(-1, 1, 8, dtype=np.float32)]
    wanted = session.run(given)["y"]
    for _ in range(5):
        faulty.fails = {"run"}
        with pytest.raises(BackendError, match="on fire"):
            session.run(given)
        faulty.fails = set()
        np.testing.assert_array_equal(session.run(given)["y"], wanted)


def test_threads_are_started_by_parallel_runs_only_and_end_with_the_session(model: bytes) -> None:
    gc.collect()
    before = workers()
    linear = Session(model, threads=4)
    linear.run([image()])
    assert workers() <= before
    parallel = Session(model, executor="parallel", threads=2)
    assert workers() <= before
    parallel.run([image()])
    assert len(workers() - before) == 1
    del parallel
    gc.collect()
    for thread in workers() - before:
        thread.join(60)
    assert workers() <= before


def test_many_threads_share_a_parallel_session(model: bytes, wanted: np.ndarray) -> None:
    session = Session(model, executor="parallel", threads=2)
    wrong: list[int] = []

    def use(number: int) -> None:
        for _ in range(10):
            (got,) = session.run([image()]).values()
            if not np.array_equal(got, wanted):
                wrong.append(number)

    users = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def test_a_forked_child_goes_on(model: bytes, wanted: np.ndarray) -> None:
    session = Session(model, executor="parallel", threads=2)
    session.run([image()])
    child = os.fork()
    if not child:
        try:
            (got,) = session.run([image()]).values()
            os._exit(0 if np.array_equal(got, wanted) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (got,) = session.run([image()]).values()
    np.testing.assert_array_equal(got, wanted)


def test_an_artifact_remembers_its_executor(
    model: bytes, wanted: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "towers.circlet"
    path.write_bytes(compile_model(model, Options(executor="parallel")))
    for executor, name in ((None, "parallel"), ("linear", "linear"), ("dataflow", "dataflow")):
        session = load_artifact(path, executor=executor, threads=2)
        assert session.options.executor == name
        assert len(session.opened.partitions) > 1
        np.testing.assert_array_equal(session.run([image()])["y"], wanted)


def test_the_environment_names_an_executor(model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_EXECUTOR", "dataflow")
    assert Session(model).options.executor == "dataflow"
    assert Session(model, executor="linear").options.executor == "linear"
    monkeypatch.setenv("CIRCLET_EXECUTOR", "sideways")
    with pytest.raises(InputError, match="no such executor"):
        Session(model)


def test_commands_take_an_executor(model: bytes, tmp_path: Path) -> None:
    path, artifact = tmp_path / "towers.tflite", tmp_path / "towers.circlet"
    path.write_bytes(model)
    outputs = {}
    for executor in EXECUTORS:
        file = tmp_path / f"{executor}.npy"
        report = as_json("run", str(path), "--executor", executor, "--output", str(file))
        assert report["executor"] == executor
        outputs[executor] = np.load(file)
        np.testing.assert_array_equal(outputs[executor], outputs["linear"])
    as_json("compile", str(path), "-o", str(artifact), "--executor", "parallel")
    assert as_json("run", str(artifact))["executor"] == "parallel"


def test_sizes_may_change(model: bytes) -> None:
    plain, other = (Session(model, executor=e, threads=2) for e in ("linear", "parallel"))
    shapes = {"x": (1, 28, 32, 24)}
    given = [np.random.default_rng(3).normal(0, 1, shapes["x"]).astype(np.float32)]
    resized = other.resized(shapes)
    assert len(resized.opened.partitions) > 1
    np.testing.assert_array_equal(resized.run(given)["y"], plain.resized(shapes).run(given)["y"])
