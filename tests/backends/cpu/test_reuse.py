"""Results take the memory of inputs that nothing reads afterwards, where that is invisible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.passes import IN_PLACE, native_pipeline
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import AddAttrs, MulAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.plan.partition import partition
from circlet.target.targets import native_target
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.backends.cpu.harness import check_native, run_native, runnable

F32 = DType.FLOAT32
SHAPE = (3, 5, 16)
BYTES = 3 * 5 * 16 * 4


def arena_bytes(graph: Graph, *, in_place: bool = True) -> int:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return compile_partition(
        replace(whole, in_place=in_place), native_target(), 1
    ).memory.arena_bytes


def check(cases: Cases, arena: int, apart: int, target: str = "native") -> None:
    """Assert the arena's size with and without reuse, and the results."""
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = cases.graph()
    assert (arena_bytes(graph), arena_bytes(graph, in_place=False)) == (arena, apart)
    for threads in (1, 2):
        check_native(graph, cases.inputs, target, threads)


def unary(cases: Cases, x: Tensor, kind: str) -> Tensor:
    return cases.builder.op(kind, [x])


@each_target
def test_a_chain_lives_in_one_place(target: str) -> None:
    cases = Cases()
    x = cases.data(F32, SHAPE)
    for kind in ("NEG", "ABS", "SQUARE", "NEG"):
        x = unary(cases, x, kind)
    cases.op("EXP", [x])
    check(cases, BYTES, 2 * BYTES, target)


@each_target
def test_a_sum_is_written_over_the_operand_that_is_as_large(target: str) -> None:
    cases = Cases()
    row = unary(cases, cases.data(F32, (1, 1, 16)), "ABS")
    x = unary(cases, cases.data(F32, SHAPE), "NEG")
    cases.op("EXP", [cases.builder.op("ADD", [row, x], AddAttrs())])
    check(cases, BYTES + 64, 2 * BYTES + 64, target)


@each_target
def test_bytes_are_looked_up_in_place(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.INT8, (3, 7, 33))
    a = cases.builder.op("ABS", [x], quant=QUANT)
    b = cases.builder.op("RELU", [a], quant=QUANT)
    cases.op("NEG", [cases.builder.op("SQUARE", [b], quant=QUANT)], quant=QUANT)
    check(cases, 3 * 7 * 33, 704 + 3 * 7 * 33, target)


@each_target
@pytest.mark.parametrize("size", [16, 100, 259])
def test_rows_are_normalised_in_place(target: str, size: int) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = Cases()
    make = cases.builder.op
    swapped = cases.constant(np.array([1, 0], np.int32))
    x = make("TRANSPOSE", [cases.data(F32, (size, 16)), swapped])
    total = make("SUM", [x, cases.constant(np.array([1], np.int32))], ReducerAttrs(keep_dims=True))
    cases.op("TRANSPOSE", [make("MUL", [x, total], MulAttrs()), swapped])
    graph = cases.graph()
    fused = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(fused)
    assert "FUSED_ROWS" in [op.kind for op in fused.ops]
    assert arena_bytes(fused) == size * 64 < arena_bytes(fused, in_place=False)
    (got,), (wanted,) = run_native(fused, cases.inputs, target), evaluate_graph(graph, cases.inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("other", ["reader", "part", "output", "input", "sizes", "width"])
def test_what_is_still_wanted_is_not_written_over(other: str) -> None:
    cases = Cases()
    make = cases.builder.op
    x = cases.data(F32, SHAPE)
    old = x if other == "input" else unary(cases, x, "ABS")
    if other == "output":
        cases.outputs.append(old)
    part = make("RESHAPE", [old], ReshapeAttrs((15, 16))) if other == "part" else None
    if other == "sizes":
        old = make("RESHAPE", [old], ReshapeAttrs((15, 16)))
    new = unary(cases, old, "NEG")
    if other == "width":
        new = make("CAST", [new], CastAttrs(), dtype=DType.INT8)
    cases.op("CAST" if other == "width" else "ABS", [new], dtype=F32)
    if other == "reader":
        cases.op("EXP", [old])
    if part is not None:
        cases.op("EXP", [part])
    graph = cases.graph()
    check_native(graph, cases.inputs)
    reused = {"input": BYTES, "output": BYTES, "sizes": BYTES, "width": BYTES * 5 // 4}
    assert arena_bytes(graph) == reused.get(other, 2 * BYTES)


def test_an_operand_used_twice_is_written_over_once() -> None:
    cases = Cases()
    x = unary(cases, cases.data(F32, SHAPE), "NEG")
    cases.op("EXP", [cases.builder.op("MUL", [x, x], MulAttrs())])
    check(cases, BYTES, 2 * BYTES)


def test_a_slice_does_not_take_the_memory_of_the_whole() -> None:
    cases = Cases()
    make = cases.builder.op
    x = unary(cases, cases.data(F32, SHAPE), "NEG")
    begin, size = (cases.constant(np.array(v, np.int32)) for v in ([1, 0, 0], [1, 5, 16]))
    part = make("SLICE", [x, begin, size])
    cases.op("EXP", [unary(cases, part, "ABS")])
    third = BYTES // 3
    check(cases, BYTES + third, BYTES + third)


@pytest.mark.parametrize(("level", "in_place"), [("O0", False), ("O1", False), ("O2", True)])
def test_levels_switch_it(level: str, in_place: bool) -> None:
    assert (level in IN_PLACE) is in_place
