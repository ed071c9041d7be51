from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CircletError
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.build import builder
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.profiling.profiler import random_inputs
from tests import corpora
from tests.runtime import networks
from tests.windows import conv2d_attrs, depthwise_attrs

# Python 3.12 warns of what these tests prove to work.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
CHILD_S = 240


@pytest.fixture(scope="module")
def model() -> bytes:
    return networks.convolutions(24, 16, 3)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return networks.convolutions_input(24, 16)


def answer(session: Session, x: np.ndarray) -> np.ndarray:
    (result,) = session.run([x]).values()
    return result


@pytest.mark.smoke
def test_results_are_the_same_for_any_number_of_threads(model: bytes, x: np.ndarray) -> None:
    wanted = answer(Session(model, threads=1), x)
    for threads in (2, 3, 64):
        np.testing.assert_array_equal(answer(Session(model, threads=threads), x), wanted)


def kinds_of_steps() -> bytes:
    """Input "x": steps of many kinds, of which most have more tasks than one."""
    b, random = builder(), np.random.default_rng(3)

    def weights(*shape: int, quant: Quantization | None = None) -> Tensor:
        if quant is None:
            return b.constant("w", random.normal(0, 0.1, shape).astype(np.float32))
        return b.constant("q", random.integers(-127, 128, shape, np.int8), quant)

    stored = Quantization.per_tensor(0.01)
    x = b.input("x", DType.FLOAT32, (1, 33, 37, 24))
    plain = b.op("CONV_2D", [x, weights(40, 3, 3, 24), None], conv2d_attrs("SAME", 1, 1))
    quantised = [x, weights(40, 1, 1, 24, quant=stored), None]
    t = b.op("ADD", [plain, b.op("CONV_2D", quantised, conv2d_attrs("SAME", 1, 1))])
    t = b.op("DEPTHWISE_CONV_2D", [t, weights(1, 5, 5, 40), None], depthwise_attrs("SAME", 1, 1, 1))
    t = b.op("MAX_POOL_2D", [t], Pool2DAttrs(SAME_UPPER, (2, 2), (3, 3)))
    t = b.op("RESIZE_BILINEAR", [t, b.constant("size", np.array([33, 37], np.int32))])
    t = b.op("SOFTMAX", [b.op("TANH", [t])], SoftmaxAttrs(1.0))
    t = b.op("TRANSPOSE", [t, b.constant("order", np.array([0, 3, 1, 2], np.int32))])
    mean = b.op("MEAN", [t, b.constant("axes", np.array([1], np.int32))])
    return networks.tflite(b.output(t, mean))


@pytest.mark.parametrize("threads", [2, 3, 7, 16])
def test_every_kind_of_step_gives_the_same_bits_on_any_number_of_threads(threads: int) -> None:
    network = kinds_of_steps()
    x = np.random.default_rng(4).normal(0, 1, (1, 33, 37, 24)).astype(np.float32)
    wanted = list(Session(network, threads=1).run([x]).values())
    session = Session(network, threads=threads)
    for _ in range(18):  # through all modes of a trial, and past it
        for got, want in zip(session.run([x]).values(), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


@corpora.each_model()
def test_a_network_gives_the_same_bits_on_sixteen_threads(name: str) -> None:
    path = corpora.corpus(f"models/{name}")
    try:
        alone, together = (Session(path, threads=count) for count in (1, 16))
        inputs = random_inputs(alone)
    except CircletError as error:
        pytest.skip(f"it does not run: {error.what}")
    for _ in range(4):
        answers = (session.run(inputs).values() for session in (alone, together))
        for want, got in zip(*answers, strict=True):
            np.testing.assert_array_equal(got, want)


def test_many_threads_may_run_one_session(model: bytes, x: np.ndarray) -> None:
    session = Session(model, threads=2)
    inputs = [x * np.float32(scale) for scale in range(8)]
    wanted = [answer(session, each) for each in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            for got, want in zip(
                pool.map(lambda each: answer(session, each), inputs), wanted, strict=True
            ):
                np.testing.assert_array_equal(got, want)


def test_many_threads_may_open_one_model(model: bytes, x: np.ndarray) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: answer(Session(model, threads=1), x), range(4)))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_two_sessions_of_one_network_outlive_each_other(model: bytes, x: np.ndarray) -> None:
    first, second = Session(model), Session(model)
    wanted = answer(first, x)
    call = second.bind([x])
    del first, second
    call()
    np.testing.assert_array_equal(call.outputs[0], wanted)


def succeeds_in_a_fork(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if not child:
        signal.alarm(CHILD_S)
        try:
            os._exit(0 if check() else 3)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("run_before", [False, True], ids=["before-a-run", "after-a-run"])
def test_a_session_works_on_both_sides_of_a_fork(
    model: bytes, x: np.ndarray, run_before: bool
) -> None:
    wanted = answer(Session(model, threads=1), x)
    session = Session(model, threads=2)
    if run_before:
        answer(session, x)
    assert succeeds_in_a_fork(lambda: np.array_equal(answer(session, x), wanted))
    np.testing.assert_array_equal(answer(session, x), wanted)


def test_a_bound_call_works_in_a_fork(model: bytes, x: np.ndarray) -> None:
    call = Session(model, threads=2).bind([x])
    call()
    wanted = call.outputs[0].copy()

    def check() -> bool:
        call.outputs[0][...] = 0
        call()
        return np.array_equal(call.outputs[0], wanted)

    assert succeeds_in_a_fork(check)


def run_in_child(model: bytes, x: np.ndarray) -> np.ndarray:
    return answer(Session(model, threads=2), x)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_worker_processes_open_and_run_networks(method: str, model: bytes, x: np.ndarray) -> None:
    wanted = answer(Session(model), x)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for result in pool.starmap(run_in_child, [(model, x)] * 2):
            np.testing.assert_array_equal(result, wanted)
