"""Opening takes time that grows with a network as its file does, whatever form it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.growth import FORMS
from bench.opening import opened_without_compiler
from circlet import Session
from circlet.artifact.values import check_apart
from circlet.errors import InputError, PlacementError
from circlet.limits import Limits
from tests.tiers import quick_of

BACKENDS = ("cpu", "reference")
MOST_RATIO = 2.4  # of the work for twice the network
SMALL = 160
LARGE_BYTES = 4 << 30
HANG_S = 140
# The file of a distinct convolution grows with its number, and so does its window.
QUICK = ("chain", "fan_out")
LINEAR = quick_of([name for name in FORMS if name != "distinct_convolutions"], QUICK)


def calls_of(work: Callable[[], object]) -> int:
    """Python functions entered, generators resumed, and functions in C that were called."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LINEAR)
def test_twice_the_network_is_at_most_little_more_than_twice_the_work(
    name: str, backend: str
) -> None:
    small, large = FORMS[name](SMALL), FORMS[name](2 * SMALL)
    opened_without_compiler(small, backend)  # what is made once is made now
    less = calls_of(lambda: opened_without_compiler(small, backend))
    more = calls_of(lambda: opened_without_compiler(large, backend))
    assert more < MOST_RATIO * less


def answers(session: Session) -> list[np.ndarray]:
    """What a session makes of ones."""
    ones = [np.ones(value.shape, value.dtype) for value in session.inputs]
    return list(session.run(ones).values())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "count", "wanted"), [("add_n", 400, 304.6), ("buckets", 300, 2)])
def test_what_one_operator_is_given_does_not_nest(
    name: str, count: int, wanted: float, backend: str
) -> None:
    """Not in a thread with a small stack either."""
    found: list[np.ndarray] = []

    def work() -> None:
        session = Session(FORMS[name](count), backends=(backend, "reference"), cache=False)
        found.extend(answers(session))

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    np.testing.assert_allclose(found[0], np.full((1, 4), wanted), rtol=1e-3)


def test_kernels_beyond_the_limit_are_left_to_another_backend_with_the_reason() -> None:
    source = FORMS["distinct_sums"](80)
    few = Session(source, cache=False, limits=Limits(kernels=4))
    rows = few.placement
    assert rows[0]["backend"] == "cpu" and rows[-1]["backend"] == "reference"
    assert "more than 4 distinct kernels" in str(rows[-1]["refused"])
    all_native = Session(source, cache=False, strict=True)
    np.testing.assert_allclose(answers(few)[0], answers(all_native)[0], rtol=1e-5)
    tuned = Session(source, cache=False, limits=Limits(kernels=4), tune_seconds=0.01)
    assert tuned.placement == few.placement
    with pytest.raises(PlacementError, match="distinct kernels"):
        Session(source, cache=False, strict=True, limits=Limits(kernels=4))


def test_a_network_changes_backends_no_more_often_than_its_limits_allow() -> None:
    source = FORMS["changes"](40)
    limits = Limits(partitions=6)
    session = Session(source, cache=False, limits=limits, level="O0")  # leaves sums whole
    assert len({id(part.code) for part in session.opened.partitions}) <= 7
    refused = [row["refused"] for row in session.placement if row["kind"] == "SOFTMAX"]
    assert not refused[0] and "more than 6 parts" in str(refused[-1])
    alone = Session(source, cache=False, backends=("reference",))
    np.testing.assert_allclose(answers(session)[0], answers(alone)[0], rtol=1e-5)


def test_buffers_are_apart_however_many_there_are() -> None:
    room = np.zeros(4 * 3000, np.float32)
    parts = np.split(room, 3000)
    names = [f"y{index}" for index in range(len(parts))]
    assert calls_of(lambda: check_apart([], parts, names)) < 20 * len(parts)
    with pytest.raises(InputError, match="y7"):
        check_apart([room[30:31]], parts, names)
    check_apart([parts[0], parts[0]], parts[1:], names[1:])


OPEN_LARGE = """
import json, resource, sys, time
import numpy as np
from circlet import Session
resource.setrlimit(resource.RLIMIT_AS, ({memory},) * 2)
start = time.perf_counter()
session = Session(sys.argv[1], backends=(sys.argv[2], "reference"))
session.run([np.ones(value.shape, value.dtype) for value in session.inputs])
print(json.dumps([time.perf_counter() - start, len(session.placement)]))
"""


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param("chain", "cpu", marks=pytest.mark.slow),
        pytest.param("nested_lives", "cpu", marks=pytest.mark.slow),
        pytest.param("outputs", "cpu", marks=pytest.mark.release),
        pytest.param("chain", "reference", marks=pytest.mark.release),
        pytest.param("nested_lives", "reference", marks=pytest.mark.release),
        pytest.param("outputs", "reference", marks=pytest.mark.release),
    ],
)
def test_a_hundred_thousand_operators_open(name: str, backend: str, tmp_path: Path) -> None:
    """Cold, then from the cache, each within the bounds of memory and of what counts as a hang."""
    count = 40_000 if name == "nested_lives" else 99_999
    model = tmp_path / "model.tflite"
    model.write_bytes(FORMS[name](count))
    environment = {**os.environ, "CIRCLET_CACHE_DIR": str(tmp_path / "cache")}
    script = OPEN_LARGE.format(memory=LARGE_BYTES)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, str(model), backend],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        least = 60_000 if name == "nested_lives" else 90_000  # it computes much twice
        assert json.loads(done.stdout)[1] > least
