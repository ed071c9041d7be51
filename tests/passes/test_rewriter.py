from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.ir import BlockwiseQuant, DType, Graph, Quantization
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
    new = replace(b, kind="BC", outputs=c.outputs)
    rewriter.replace([b, c], new)
    assert rewriter.finish()
    assert graph.ops == [a, new, d] and new.outputs == c.outputs
    assert (new.kind, new.origin.name) == ("BC", "b1+c2")
    assert b.outputs[0] not in graph.tensors


def test_replacements_of_replacements_keep_all_origins() -> None:
    graph = chain("A", "B", "C")
    a, b, c = graph.ops
    rewriter = Rewriter(graph)
    first = replace(a, outputs=b.outputs)
    rewriter.replace([a, b], first)
    last = replace(first, outputs=c.outputs)
    rewriter.replace([first, c], last)
    rewriter.finish()
    assert graph.ops == [last] and last.origin.name == "a0+b1+c2"


def test_several_ops_take_the_place_of_one_and_their_tensors_are_listed() -> None:
    graph = chain("A", "B", "C")
    a, b, c = graph.ops
    between = b.outputs[0].like("between")
    first, second = replace(b, outputs=[between]), replace(b, kind="B2", inputs=[between])
    rewriter = Rewriter(graph)
    rewriter.replace([b], first, second)
    seen = [op for op in rewriter.ops() if op is not c]
    assert rewriter.finish() and seen == [a, first, second]
    assert graph.ops == [a, first, second, c] and graph.tensors.count(between) == 1
    assert {op.origin.name for op in graph.ops[1:3]} == {"b1"}


def test_an_op_that_took_a_place_is_replaced_there() -> None:
    graph = chain("A", "B", "C")
    a, b, c = graph.ops
    between = b.outputs[0].like("between")
    first, second = replace(b, outputs=[between]), replace(b, inputs=[between])
    rewriter = Rewriter(graph)
    rewriter.replace([b], first, second)
    whole = replace(c, kind="B2C", inputs=[between])
    rewriter.replace([second, c], whole)
    rewriter.finish()
    assert graph.ops == [a, first, whole] and whole.origin.name == "b1+c2"


def test_what_others_read_of_ops_that_run_together() -> None:
    b = Builder()
    t = b.op("A", [b.input("x", F32, (1,))], shape=(1,))
    u, v = b.op("B", [t], shape=(1,)), b.op("C", [t], shape=(1,))
    graph = b.output(u, v).build()
    rewriter = Rewriter(graph)
    assert rewriter.results(graph.ops[:2]) == [u, t] and rewriter.results(graph.ops) == [v, u]
    assert rewriter.position(graph.ops[1]) == 1


def test_an_appended_op_runs_last_and_its_tensors_are_listed() -> None:
    graph = chain("A", "B")
    rewriter = Rewriter(graph)
    last = replace(graph.ops[1], kind="C", outputs=[graph.outputs[0].like("copy")])
    rewriter.append(last)
    assert rewriter.readers(graph.ops[0].outputs[0]) == [graph.ops[1], last]
    assert rewriter.finish() and graph.ops[-1] is last and last.outputs[0] in graph.tensors


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


def test_scales_in_tensors_are_listed_as_long_as_what_they_scale() -> None:
    b = Builder()
    scales = b.constant("scales", np.ones((1, 1), np.float32))
    details = BlockwiseQuant(scales, None, 32)
    empty = Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64), details=details)
    zeros = np.zeros(16, np.uint8)
    blocks = b.constant("blocks", zeros, dtype=DType.INT4, shape=(1, 32))
    blocks.quant = empty
    same = b.op("SAME", [blocks], shape=(1, 32))
    b.output(b.op("B", [b.op("A", [same], shape=(1,))], shape=(1,)))
    rewriter = Rewriter(b.graph)
    rewriter.bypass(b.graph.ops[0], blocks)
    rewriter.finish()
    assert scales in b.graph.tensors and same not in b.graph.tensors
    b.graph.ops[0].inputs = []
    assert {scales, blocks}.isdisjoint(b.graph.used_tensors())


def test_value_read_twice_is_not_private() -> None:
    b = Builder()
    t = b.op("A", [b.input("x", F32, (1,))], shape=(1,))
    b.output(b.op("ADD", [t, t], shape=(1,)))
    assert not Rewriter(b.graph).is_private(t)
