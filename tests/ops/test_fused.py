"""Fused operators compute what their parts compute, and their records check the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from circlet.ir import DType, Graph, Op
from circlet.ops import all_records, find, get
from circlet.ops.build import builder
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.verify import violations
from circlet.passes import Rewriter
from tests.evaluate import evaluate, random_inputs

F32 = DType.FLOAT32


def network() -> Graph:
    """Two element-wise ops, both of whose results are outputs."""
    b = builder()
    x, y = b.input("x", F32, (2, 3)), b.input("y", F32, (3,))
    t = b.op("ADD", [x, y], name="t")
    return b.output(b.op("TANH", [t], name="u"), t).build()


def fused(graph: Graph) -> Op:
    """Have all ops of a graph run as one."""
    rewriter, parts = Rewriter(graph), tuple(graph.ops)
    attrs = FusedAttrs(parts)
    op = Op(FUSED_ELEMENTWISE, [*graph.inputs], [*graph.outputs], attrs, parts[0].origin)
    rewriter.replace(parts, op)
    rewriter.finish()
    return op


def test_a_fused_op_computes_what_its_parts_compute() -> None:
    graph = network()
    inputs = random_inputs(graph)
    wanted = evaluate(graph, inputs)
    op = fused(graph)
    assert graph.ops == [op] and op.origin.name == "t+u" and list(violations(graph)) == []
    for got, want in zip(evaluate(graph, inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_its_types_and_work_follow_from_its_parts() -> None:
    op = fused(network())
    record = get(op)
    assert [t.shape for t in record.infer(op)] == [(2, 3), (2, 3)]
    assert record.cost(op).bytes == 4 * (6 + 3 + 6 + 6)


def _without_parts(op: Op) -> None:
    op.attrs = FusedAttrs(())


def _with_a_strange_operand(op: Op) -> None:
    op.inputs = op.inputs[:1]


def _with_a_strange_result(op: Op) -> None:
    op.outputs = [op.outputs[0], op.outputs[1].like()]


def _with_a_broken_part(op: Op) -> None:
    assert isinstance(op.attrs, FusedAttrs)
    first, *others = op.attrs.parts
    op.attrs = FusedAttrs((replace(first, inputs=first.inputs[:1]), *others))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (_without_parts, "parts"),
        (_with_a_strange_operand, "operands"),
        (_with_a_strange_result, "results"),
        (_with_a_broken_part, "part-rules"),
    ],
)
def test_what_breaks_a_rule_is_found(spoil: Callable[[Op], None], rule: str) -> None:
    op = fused(network())
    spoil(op)
    record = find(FUSED_ELEMENTWISE)
    assert record is not None
    broken = next(r for r in record.rules if not r.holds(op))
    assert broken.name == rule


def test_files_hold_no_fused_kinds() -> None:
    assert not any(record.fused for record in all_records())
