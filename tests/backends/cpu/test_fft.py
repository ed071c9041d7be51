"""Native spectra are those of the record."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from circlet.ops.evaluate import evaluate_graph
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable


@each_width
def test_spectra_and_their_sizes_equal_the_records(target: str) -> None:
    cases = Cases()
    for shape, length in (((96, 1, 512), 512), ((3, 1, 9), 4), ((5, 1, 9), 16), ((2, 1, 2), 2)):
        lengths = cases.constant(np.array([1, length], np.int32))
        spectrum = cases.op("RFFT2D", [cases.data(DType.FLOAT32, shape), lengths])
        cases.op("COMPLEX_ABS", [spectrum])
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    for got, want in zip(run_native(graph, cases.inputs, target, 2), wanted, strict=True):
        assert np.abs(got - want).max() <= 1e-6 * max(1, np.abs(want).max())
        if np.iscomplexobj(got):
            ends = [np.signbit(spectrum.imag[..., [0, -1]]) for spectrum in (got, want)]
            np.testing.assert_array_equal(*ends)
