"""`python -m bench opencl`: networks on the device of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import opencl, opencl_torch
from bench.opencl_peaks import DevicePeaks
from circlet.formats import load
from circlet.sample import Sample
from tests.backends.opencl.running import device

__all__ = ["device"]


def test_the_least_time_is_that_of_arithmetic_or_of_memory() -> None:
    peaks = DevicePeaks(gflops=1000.0, gbs=100.0)
    assert peaks.least_us(macs=500_000, moved_bytes=100) == pytest.approx(1.0)
    assert peaks.least_us(macs=10, moved_bytes=300_000) == pytest.approx(3.0)


def test_products_of_floats_are_what_is_set_beside_pytorch() -> None:
    for network, found in (("float", True), ("int8", False)):
        ops = load(Sample(network).model_path).main.ops
        assert any(opencl_torch.is_float_product(op) for op in ops) is found


@pytest.mark.usefixtures("device")
def test_a_network_is_measured_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.json"
    model = Sample("float").model_path
    missing = str(tmp_path)  # no artifact for the column cpu lies there
    words = [str(model), "--seconds", "0.01", "--json", str(rows), "--artifacts", missing]
    opencl.main(words)
    shown = capsys.readouterr().out
    assert "no time on cpu" in shown
    (row,) = json.loads(rows.read_text())["rows"]
    assert row["ops"][0] == row["ops"][1]
    assert min(row["wall_us"], row["kernels_us"]) > 0
    assert row["differ"] < 1e-5
