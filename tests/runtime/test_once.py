"""Weights that a network makes of next to nothing: once for a session, and in no file."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import LimitError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.options import Options
from circlet.profiling.memory import plan_memory
from tests.cli.call import circlet
from tests.windows import conv2d_attrs

FILTERS, CHANNELS, SIZE = 96, 64, 12
WEIGHTS_BYTES = FILTERS * 9 * CHANNELS * 4


@pytest.fixture(scope="module")
def network() -> bytes:
    """A convolution whose weights are the sines of an outer product, too large to be folded."""
    b, random = builder(), np.random.default_rng(0)
    x = b.input("x", DType.FLOAT32, (1, SIZE, SIZE, CHANNELS))
    shapes = {"columns": (FILTERS, 1, 1, 1), "rows": (1, 3, 3, CHANNELS)}
    ends = [
        b.constant(name, random.standard_normal(shape).astype(np.float32))
        for name, shape in shapes.items()
    ]
    weights = b.op("SIN", [b.op("MUL", ends)], name="weights")
    y = b.op("CONV_2D", [x, weights, None], conv2d_attrs("SAME", 1, 1), name="y")
    return dumps(b.output(y).model(), "tflite")


def _input(size: int = SIZE) -> np.ndarray:
    values = np.random.default_rng(size).standard_normal((1, size, size, CHANNELS))
    return (values / 8).astype(np.float32)


def _answer(session: Session, x: np.ndarray) -> np.ndarray:
    (y,) = session.run([x]).values()
    return y


def test_all_runs_and_sizes_give_what_the_records_do(network: bytes) -> None:
    session, slow = Session(network), Session(network, backends=("reference",))
    assert {row["backend"] for row in session.placement} == {"cpu"}
    for size in (SIZE, SIZE, 9):
        shape = {"x": (1, size, size, CHANNELS)}
        x = _input(size)
        wanted = _answer(slow.resized(shape), x)
        for _ in range(2):
            np.testing.assert_allclose(_answer(session.resized(shape), x), wanted, atol=1e-4)


def test_runs_side_by_side_share_it(network: bytes) -> None:
    session, x = Session(network, threads=1), _input()
    found: list[np.ndarray] = []
    calls = [
        threading.Thread(target=lambda: found.append(_answer(session, x).copy())) for _ in range(4)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert len(found) == len(calls)
    assert all(np.array_equal(one, found[0]) for one in found)


def test_no_artifact_holds_it(network: bytes, tmp_path: Path) -> None:
    path = tmp_path / "network.circlet"
    path.write_bytes(compile_model(network, Options()))
    assert path.stat().st_size < WEIGHTS_BYTES
    x = _input()
    np.testing.assert_array_equal(_answer(load_artifact(path), x), _answer(Session(network), x))


def test_it_is_planned_shown_and_charged(network: bytes, tmp_path: Path) -> None:
    report = plan_memory(network, Options(), threads=1)
    (part,) = report.partitions
    assert part.once_bytes == report.once_bytes >= WEIGHTS_BYTES
    assert sum(size for _, size in part.once) <= part.once_bytes
    parts = report.arena_bytes + report.scratch_bytes + report.values_bytes + report.once_bytes
    assert report.planned_bytes == parts
    path = tmp_path / "network.tflite"
    path.write_bytes(network)
    shown = circlet("memory", path, "--no-process").output
    assert f"computed once {report.once_bytes:,}" in shown
    assert f"computed once for all runs: {report.once_bytes:,} bytes" in shown
    few = Limits(memory_bytes=WEIGHTS_BYTES, memory_per_file_byte=0)
    with pytest.raises(LimitError):
        Session(network, limits=few, backends=("cpu",), cache=False)
