from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.reduce import ReducerAttrs
from circlet.passes import FILE_PIPELINES, file_pipeline, make, pipeline
from tests.passes.harness import kinds_of, rewritten

SHAPE = (2, 3, 8, 16)


def reduced(b: Builder, kind: str, x: Tensor, axis: int = -1, *, keep: bool = True) -> Tensor:
    return b.op(kind, [x, b.constant("axis", np.array([axis], np.int32))], ReducerAttrs(keep))


def powers(b: Builder, x: Tensor, axis: int = -1) -> Tensor:
    return b.op("EXP", [b.op("SUB", [x, reduced(b, "REDUCE_MAX", x, axis)])])


def plain(b: Builder, x: Tensor) -> Tensor:
    e = powers(b, x)
    return b.op("DIV", [e, reduced(b, "SUM", e)])


def by_reciprocal(b: Builder, x: Tensor) -> Tensor:
    e = powers(b, x)
    one = b.constant("one", np.float32(1))
    return b.op("MUL", [b.op("DIV", [one, reduced(b, "SUM", e)]), e])


def reshaped(b: Builder, x: Tensor) -> Tensor:
    """As JAX has it: reductions lose their axis, which a reshape brings back."""
    sizes = b.constant("sizes", np.array([*x.static_shape[:-1], 1], np.int32))
    most = b.op(
        "MAXIMUM", [b.constant("low", np.float32(-np.inf)), reduced(b, "REDUCE_MAX", x, keep=False)]
    )
    e = b.op("EXP", [b.op("SUB", [x, b.op("RESHAPE", [most, sizes])])])
    return b.op("DIV", [e, b.op("RESHAPE", [reduced(b, "SUM", e, keep=False), sizes])])


def logarithm(b: Builder, x: Tensor) -> Tensor:
    small = b.op("SUB", [x, reduced(b, "REDUCE_MAX", x)])
    return b.op("SUB", [small, b.op("LOG", [reduced(b, "SUM", b.op("EXP", [small]))])])


def over_another_axis(b: Builder, x: Tensor) -> Tensor:
    e = powers(b, x, -2)
    return b.op("DIV", [e, reduced(b, "SUM", e, -2)])


def sum_over_another_axis(b: Builder, x: Tensor) -> Tensor:
    e = powers(b, x)
    return b.op("DIV", [e, reduced(b, "SUM", e, -2)])


def without_maximum(b: Builder, x: Tensor) -> Tensor:
    e = b.op("EXP", [x])
    return b.op("DIV", [e, reduced(b, "SUM", e)])


def with_one_more(b: Builder, x: Tensor) -> Tensor:
    """Shares that leave something to a place that is not there."""
    e = powers(b, x)
    total = b.op("ADD", [reduced(b, "SUM", e), b.constant("one", np.float32(1))])
    return b.op("DIV", [e, total])


def network(spelled: Callable[[Builder, Tensor], Tensor]) -> Graph:
    b = builder()
    return b.output(spelled(b, b.input("x", DType.FLOAT32, SHAPE))).build()


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [
        (plain, "SOFTMAX"),
        (by_reciprocal, "SOFTMAX"),
        (reshaped, "SOFTMAX"),
        (logarithm, "LOG_SOFTMAX"),
    ],
)
def test_it_is_recognised_as_files_spell_it(
    spelled: Callable[[Builder, Tensor], Tensor], kind: str
) -> None:
    graph = network(spelled)
    assert rewritten(graph, "recognise-softmax", tolerance=1e-5) == [kind]


@pytest.mark.parametrize(
    "spelled", [over_another_axis, sum_over_another_axis, without_maximum, with_one_more]
)
def test_what_looks_alike_stays(spelled: Callable[[Builder, Tensor], Tensor]) -> None:
    graph = network(spelled)
    assert rewritten(graph, "recognise-softmax", tolerance=1e-5) == kinds_of(network(spelled))


def test_powers_that_others_read_stay() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, SHAPE)
    e = powers(b, x)
    graph = b.output(b.op("DIV", [e, reduced(b, "SUM", e)]), b.op("NEG", [e])).build()
    kinds = kinds_of(graph)
    assert rewritten(graph, "recognise-softmax", tolerance=1e-5) == kinds


def test_rows_of_open_number_are_recognised() -> None:
    graph = network(plain)
    for tensor in [*graph.inputs, *(t for op in graph.ops for t in op.outputs)]:
        tensor.shape = (None, *tensor.shape[1:])
    assert make("recognise-softmax").run(graph)
    assert kinds_of(graph) == ["SOFTMAX"]


def test_levels_recognise_it_but_for_those_that_keep_every_bit() -> None:
    for level in FILE_PIPELINES:
        is_fast = level in ("O2", "Os")
        for passes in (pipeline(level, check=True), file_pipeline(level, "tflite", check=True)):
            graph = network(plain)
            passes.run(graph)
            assert (kinds_of(graph) == ["SOFTMAX"]) is is_fast


def test_attention_whose_softmax_is_spelled_out_is_one_kernel_call() -> None:
    b = builder()
    q, k = (b.input(name, DType.FLOAT32, (2, 16, 8)) for name in "qk")
    scores = b.op("BATCH_MATMUL", [q, k], BatchMatMulAttrs(adj_y=True))
    graph = b.output(b.op("BATCH_MATMUL", [reshaped(b, scores), k], BatchMatMulAttrs())).build()
    pipeline("O2", check=True).run(graph)
    native = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(native)
    assert kinds_of(native) == ["FUSED_ATTENTION"]
