from __future__ import annotations

import numpy as np

from circlet.ir import DType, Shape, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from tests.passes.harness import rewritten


def reshape(b: Builder, x: Tensor, *sizes: int, name: str) -> Tensor:
    return b.op("RESHAPE", [x, b.constant(f"{name}/s", np.array(sizes, np.int32))], name=name)


def squeezed(sizes: Shape) -> Builder:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, sizes)], name="t")
    axis = b.constant("axis", np.array(0, np.int32))
    return b.output(b.op("EXPAND_DIMS", [b.op("SQUEEZE", [t], name="s"), axis], name="y"))


def test_squeeze_and_expand_dims_become_reshape() -> None:
    graph = squeezed((2, 1, 3)).build()
    assert rewritten(graph, "canonicalize-reshape") == ["RELU", "RESHAPE", "RESHAPE"]
    target = graph.ops[2].inputs[1]
    assert target is not None and target.data is not None and target.data.tolist() == [1, 2, 3]


def test_one_unknown_size_becomes_minus_one() -> None:
    graph = squeezed((None, 1, 3)).build()
    graph.inputs[0].default_shape = (2, 1, 3)
    assert rewritten(graph, "canonicalize-reshape", "merge-reshapes") == ["RELU", "RESHAPE"]
    target = graph.ops[1].inputs[1]
    assert target is not None and target.data is not None and target.data.tolist() == [1, -1, 3]


def test_two_unknown_sizes_stay() -> None:
    graph = squeezed((None, 1, None)).build()
    kinds = rewritten(graph, "canonicalize-reshape")
    assert kinds == ["RELU", "SQUEEZE", "EXPAND_DIMS"]


def test_chain_collapses_into_the_last() -> None:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 6))], name="t")
    chain = reshape(b, reshape(b, t, 3, 4, name="a"), 4, 3, name="b")
    graph = b.output(reshape(b, chain, -1, name="y")).build()
    assert rewritten(graph, "merge-reshapes") == ["RELU", "RESHAPE"]
    assert graph.ops[1].origin.name == "a+b+y"


def test_shared_reshape_stays() -> None:
    b = builder()
    a = reshape(b, b.input("x", DType.FLOAT32, (2, 6)), 12, name="a")
    graph = b.output(reshape(b, a, 3, 4, name="y"), b.op("RELU", [a], name="z")).build()
    assert rewritten(graph, "merge-reshapes") == ["RESHAPE", "RESHAPE", "RELU"]
