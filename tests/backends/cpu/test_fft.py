"""Native spectra are those of the record."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.ir import DType
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.quantize import CastAttrs
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable


@pytest.mark.parametrize("made", [DType.FLOAT32, DType.INT32, DType.FLOAT64])
def test_a_cast_of_complex_numbers_takes_their_real_parts(made: DType) -> None:
    cases = Cases()
    lengths = cases.constant(np.array([1, 16], np.int32))
    spectrum = cases.builder.op("RFFT2D", [cases.data(DType.FLOAT32, (3, 1, 16)), lengths])
    cases.op("CAST", [spectrum], CastAttrs("COMPLEX64", made.name), dtype=made)
    graph = cases.graph()
    (want,) = evaluate_graph(graph, cases.inputs)
    native_pipeline("O0").run(graph)
    (got,) = run_native(graph, cases.inputs)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1 if made.is_integer else 1e-5)
    assert np.abs(want).max() > 0


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
