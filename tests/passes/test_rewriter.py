from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import BlockwiseQuant, DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.passes import Rewriter

pytestmark = pytest.mark.smoke

F32 = DType.FLOAT32


def chain(*kinds: str) -> Graph:
    b = Builder()
    x = b.input("x", F32, (1,))
    for index, kind in enumerate(kinds):
        x = b.op(kind, [x], name=f"{kind.lower()}{index}", shape=(1,))
    return b.output(x).build()


def test_replacement_takes_the_place_and_the_origins() -> None:
    graph = chain("A", "B", "C", "D")
    a, b, c, d = graph.ops
    rewriter = Rewriter(graph)
    new = rewriter.replace([b, c], b, inputs=b.inputs, attrs=None, kind="BC")
    assert rewriter.finish()
    assert graph.ops == [a, new, d] and new.outputs == c.outputs
    assert (new.kind, new.origin.name) == ("BC", "b1+c2")
    assert b.outputs[0] not in graph.tensors


def test_replacements_of_replacements_keep_all_origins() -> None:
    graph = chain("A", "B", "C")
    a, b, c = graph.ops
    rewriter = Rewriter(graph)
    first = rewriter.replace([a, b], a, inputs=a.inputs, attrs=None)
    last = rewriter.replace([first, c], first, inputs=first.inputs, attrs=None)
    rewriter.finish()
    assert graph.ops == [last] and last.origin.name == "a0+b1+c2"


def test_bypassed_op_of_an_input_leaves_its_origin_to_the_readers() -> None:
    graph = chain("SAME", "B")
    rewriter = Rewriter(graph)
    assert rewriter.bypass(graph.ops[0], graph.inputs[0])
    rewriter.finish()
    assert [op.origin.name for op in graph.ops] == ["same0+b1"]
    assert graph.ops[0].inputs == [graph.inputs[0]]


def test_variables_are_not_bypassed() -> None:
    b = Builder()
    state = b.variable("state", F32, (1,))
    b.output(b.op("B", [b.op("SAME", [state], shape=(1,))], shape=(1,)))
    rewriter = Rewriter(b.graph)
    assert not rewriter.bypass(b.graph.ops[0], state)
    assert not rewriter.finish()


def test_tensors_that_others_name_by_index_stay_listed() -> None:
    graph = chain("SAME", "B")
    details = BlockwiseQuant(1, -1, 32)
    empty = Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64), details=details)
    graph.tensors.append(Tensor("blocks", DType.INT4, (32,), empty))
    before = list(graph.tensors)
    rewriter = Rewriter(graph)
    rewriter.bypass(graph.ops[0], graph.inputs[0])
    rewriter.finish()
    assert graph.tensors == before


def test_value_read_twice_is_not_private() -> None:
    b = Builder()
    t = b.op("A", [b.input("x", F32, (1,))], shape=(1,))
    b.output(b.op("ADD", [t, t], shape=(1,)))
    assert not Rewriter(b.graph).is_private(t)
