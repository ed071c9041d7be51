"""Copies to and from memory of backends' own: which are made, what they take, how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet import Session, profile
from circlet.errors import BackendError
from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from tests.cli.call import as_json
from tests.crashing import install
from tests.runtime.faulty import Behaviour, installed
from tests.runtime.networks import tflite

X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)


@pytest.fixture
def device() -> Iterator[Behaviour]:
    with installed(Behaviour(memory="device")) as behaviour:
        yield behaviour


def network(kinds: str) -> bytes:
    """Operators in a chain over "x", by their first letters: T runs on the device, R does not."""
    b = builder()
    t = b.input("x", DType.FLOAT32, (2, 5))
    return tflite(b.output(_chain(b, t, kinds)))


def _chain(b: Builder, t: Tensor, kinds: str) -> Tensor:
    for index, letter in enumerate(kinds):
        t = b.op({"T": "TANH", "R": "RELU", "A": "ABS"}[letter], [t], name=f"{letter}{index}")
    return t


def session(source: bytes, executor: str = "linear") -> Session:
    backends = ("faulty", "reference")
    return Session(source, backends=backends, cache=False, executor=executor, threads=2)


def assert_right(made: Session, source: bytes) -> None:
    wanted = list(Session(source, backends=["reference"], cache=False).run([X]).values())
    for got, right in zip(made.run([X]).values(), wanted, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("executor", ["linear", "dataflow", "parallel"])
@pytest.mark.parametrize(
    ("kinds", "log"),  # of the device
    [
        ("T", ["upload", "run", "download"]),
        ("TT", ["upload", "run", "download"]),
        ("RT", ["upload", "run", "download"]),
        ("TRT", ["upload", "run", "download"] * 2),
    ],
)
def test_a_chain_copies_where_it_changes_memory(
    device: Behaviour, kinds: str, log: list[str], executor: str
) -> None:
    source = network(kinds)
    made = session(source, executor)
    assert_right(made, source)
    assert device.log == log


def test_a_value_that_two_partitions_read_is_uploaded_once(device: Behaviour) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 5))
    early = b.op("TANH", [x], name="early")
    between = b.op("RELU", [early], name="between")
    late = b.op("TANH", [between], name="late")
    again = b.op("TANH", [b.op("ABS", [late], name="abs")], name="again")
    source = tflite(b.output(again, b.op("TANH", [between], name="twice")))
    made = session(source)
    assert_right(made, source)
    assert device.log.count("upload") == 3  # x, between, abs
    reading = [part for part in made.opened.partitions if part.backend == "faulty"]
    assert len(reading) == 3


def test_a_value_stays_on_the_device_between_two_of_its_partitions(device: Behaviour) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 5))
    kept = b.op("TANH", [x], name="kept")
    other = b.op("TANH", [b.op("RELU", [x], name="host")], name="other")
    # the sum waits for the host, so that it is of the second partition
    second = b.op("TANH", [b.op("ADD", [kept, other], name="sum")], name="second")
    source = tflite(b.output(second))
    device.kinds = ("TANH", "ADD")
    made = session(source)
    assert_right(made, source)
    parts = [part.backend for part in made.opened.partitions]
    assert parts == ["faulty", "reference", "faulty"]
    # x and the host's result go up, the last result comes down, and "kept" stays
    assert device.log == ["share", "upload", "run", "upload", "run", "download"]


def test_errors_of_copies_are_those_of_the_backend(device: Behaviour) -> None:
    made = session(network("T"))
    device.fails = {"upload"}
    with pytest.raises(BackendError, match="on fire in upload") as caught:
        made.run([X])
    assert caught.value.backend == "faulty"


def test_a_profile_tells_what_copies_take(device: Behaviour) -> None:
    found = profile(session(network("RTR")), [X], runs=5, roofline=False)
    rows = [(row.tensor, row.source, row.target, row.bytes) for row in found.transfers]
    assert rows == [("R0", "host", "device", 40), ("T1", "device", "host", 40)]
    assert all(row.us > 0 for row in found.transfers)
    told = sum(row.us for row in found.transfers) + sum(row.us for row in found.calls)
    assert told + found.between_us == pytest.approx(found.whole_us)


def test_a_placement_tells_what_is_copied_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, memory="device")
    path = tmp_path / "chain.tflite"
    path.write_bytes(network("RTR"))
    found = as_json("place", str(path), "--backend", "faulty,reference")
    rows = [(t["writer"], t["reader"], t["target"], t["is_copied"]) for t in found["transfers"]]
    assert rows == [("reference", "faulty", "device", True), ("faulty", "reference", "host", True)]
    assert found["copied_bytes"] == found["transfer_bytes"] == 80
    path.write_bytes(network("T"))
    found = as_json("place", str(path), "--backend", "faulty,reference")
    assert [(t["writer"], t["reader"]) for t in found["transfers"]] == [
        ("caller", "faulty"),
        ("faulty", "caller"),
    ]
    found = as_json("place", str(path), "--backend", "reference")
    assert found["transfers"] == []
