"""Engines in processes of their own: they run, they are compared, and none stays."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from circlet.comparison.compare import compare
from circlet.comparison.networks import described
from circlet.comparison.workers import EngineError, Worker
from tests.bench.files import need, small_file
from tests.corpora import corpus
from tests.tiers import slow


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that is started."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    return started


# The process of another engine takes seconds to start.
@pytest.mark.parametrize("kind", ["int8", *slow("fp32")])
@pytest.mark.parametrize("peer", ["litert", *slow("openvino")])
def test_a_peer_and_circlet_agree_on_a_small_network(tmp_path: Path, kind: str, peer: str) -> None:
    need(peer)
    network = described(small_file(tmp_path, kind))
    found = compare(network, 1, 2, engines=(peer, "circlet"))
    assert found.refused == {} and found.differences[peer].part < 0.05
    assert {name: len(times) for name, times in found.rounds.items()} == {peer: 2, "circlet": 2}
    assert all(us > 0 for times in found.rounds.values() for us in times)
    assert found.convenient_us.keys() == found.rounds.keys()


@pytest.mark.parametrize("peer", ["circlet", *slow("litert", "openvino")])
def test_inputs_may_have_other_sizes_than_the_file(tmp_path: Path, peer: str) -> None:
    need(peer)
    network = described(small_file(tmp_path))
    found = compare(network, 1, 1, engines=(peer,), sizes={"x": (2, 24, 24, 3)})
    assert found.refused == {} and peer in found.rounds


def test_an_engine_that_cannot_run_a_network_says_why(tmp_path: Path) -> None:
    need("litert")
    network = described(small_file(tmp_path))
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(network.path.read_bytes()[:100])
    with pytest.raises(EngineError, match="E-FORMAT"):
        Worker("circlet", broken, 1, "--class", "fp32")
    found = compare(network, 1, 1, engines=("onnxruntime", "circlet"))
    assert "onnxruntime" in found.refused and "circlet" in found.rounds


def test_each_engine_takes_part_in_the_formats_that_it_reads() -> None:
    need("onnxruntime")
    network = described(corpus("models/mnist-8.onnx"))
    found = compare(network, 1, 1, engines=("onnxruntime", "litert", "circlet"))
    assert sorted(found.rounds) == ["circlet", "onnxruntime"]
    assert "it reads .tflite" in found.refused["litert"]
    difference = found.differences["onnxruntime"]
    assert difference.part < 1e-3


def test_a_worker_that_hangs_is_ended_with_a_reason(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    with pytest.raises(EngineError, match=r"no answer within .* ended by force"):
        Worker("circlet", small_file(tmp_path), 1, timeout_s=0.01)
    assert [process.returncode is not None for process in processes] == [True]


def test_no_worker_stays(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    compare(described(small_file(tmp_path)), 1, 1, engines=("circlet",))
    with Worker("circlet", small_file(tmp_path), 1) as worker:
        assert len(worker.run(3)) == 3
    assert len(processes) == 2 and all(process.returncode == 0 for process in processes)


def test_a_worker_that_dies_says_how(tmp_path: Path) -> None:
    with Worker("circlet", small_file(tmp_path), 1) as worker:
        worker._process.kill()
        with pytest.raises(EngineError, match="ended by signal 9"):
            worker.run(1)
