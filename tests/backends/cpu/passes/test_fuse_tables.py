"""Chains from bytes to bytes are one table, whatever lies between."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import MulAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fused import FUSED_ELEMENTWISE
from circlet.ops.onnx.record import OnnxAttrs
from circlet.passes import PassManager
from tests.backends.cpu.cases import Cases
from tests.backends.cpu.harness import run_native

EVERY = np.arange(256, dtype=np.uint8).reshape(1, 4, 8, 8)


def real(cases: Cases, x: Tensor, scale: float, zero: int) -> Tensor:
    """What DequantizeLinear makes of bytes."""
    pair = [cases.constant(np.float32(scale)), cases.constant(np.uint8(zero))]
    code = "onnx.DequantizeLinear"
    return cases.op("CUSTOM", [x, *pair], OnnxAttrs(), dtype=DType.FLOAT32, custom_code=code)


def stored(cases: Cases, x: Tensor, scale: float, zero: int) -> Tensor:
    """What QuantizeLinear makes of floats."""
    pair = [cases.constant(np.float32(scale)), cases.constant(np.uint8(zero))]
    code = "onnx.QuantizeLinear"
    return cases.op("CUSTOM", [x, *pair], OnnxAttrs(), dtype=DType.UINT8, custom_code=code)


def gelu(cases: Cases, x: Tensor) -> Tensor:
    """x * (erf(x) + 1) with a step of bytes behind the function, as ONNX Runtime quantises it."""
    value = real(cases, x, 0.03, 120)
    code = "onnx.Erf"
    share = cases.op("CUSTOM", [value], OnnxAttrs(), dtype=DType.FLOAT32, custom_code=code)
    share = real(cases, stored(cases, share, 0.008, 127), 0.008, 127)
    return stored(cases, cases.op("MUL", [value, share], MulAttrs()), 0.02, 9)


def fused(graph: Graph) -> Graph:
    PassManager((PASSES.made(["fuse-tables"], {})[0],), check=True).run(graph)
    return graph


def test_a_chain_through_floats_is_one_table_of_every_byte() -> None:
    cases = Cases()
    cases.outputs = [gelu(cases, cases.given(EVERY))]
    graph = cases.graph()
    (wanted,) = evaluate_graph(graph, cases.inputs)
    fused(graph)
    assert [op.kind for op in graph.ops] == [FUSED_ELEMENTWISE]
    assert len(graph.ops[0].inputs) > 1  # the parameters of the parts
    (got,) = run_native(graph, cases.inputs, "native")
    np.testing.assert_array_equal(got, wanted)
    assert len(np.unique(got)) > 20


def test_floats_that_others_read_stay() -> None:
    """They end no table, and what makes them is computed for both."""
    cases = Cases()
    x = cases.given(EVERY)
    value = real(cases, x, 0.03, 120)
    other = cases.data(DType.FLOAT32, EVERY.shape)
    cases.outputs = [
        stored(cases, cases.op("MUL", [value, value], MulAttrs()), 0.05, 3),
        cases.op("MUL", [value, other], MulAttrs()),
    ]
    graph = cases.graph()
    wanted = evaluate_graph(graph, cases.inputs)
    fused(graph)
    assert [op.label for op in graph.ops] == [
        "CUSTOM:onnx.DequantizeLinear",
        FUSED_ELEMENTWISE,
        "MUL",
    ]
    got = run_native(graph, cases.inputs, "native")
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_allclose(got[1], wanted[1], rtol=1e-6)


def test_a_chain_that_ends_in_floats_is_no_table() -> None:
    cases = Cases()
    cases.outputs = [cases.op("EXP", [real(cases, cases.given(EVERY), 0.03, 120)])]
    graph = cases.graph()
    kinds = [op.kind for op in graph.ops]
    assert [op.kind for op in fused(graph).ops] == kinds


def test_two_sources_are_no_table() -> None:
    cases = Cases()
    pair = [real(cases, cases.data(DType.UINT8, EVERY.shape, None), 0.03, zero) for zero in (3, 90)]
    cases.outputs = [stored(cases, cases.op("MUL", pair, MulAttrs()), 0.05, 3)]
    assert FUSED_ELEMENTWISE not in {op.kind for op in fused(cases.graph()).ops}
