from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.rope import RopeAttrs
from circlet.ops.split import SplitAttrs
from tests.passes.harness import rewritten

F32 = DType.FLOAT32


def halves(b: Builder, x: Tensor, by: str, at: int) -> list[Tensor]:
    if by == "SPLIT":
        made = [Tensor(f"half{i}", F32, (1, 3, 2, 4)) for i in range(2)]
        return b.op_many("SPLIT", [b.constant("axis", np.int32(3)), x], made, SplitAttrs(2))
    sizes = ((0, at), (at, 8 - at))
    return [
        b.op("SLICE", [x, *(b.constant("i", np.array(v, np.int32)) for v in bounds)])
        for bounds in (((0, 0, 0, start), (1, 3, 2, size)) for start, size in sizes)
    ]


def embedded(by: str, *, at: int = 4, swapped: bool = False) -> Builder:
    b = builder()
    x = b.op("EXP", [b.input("x", F32, (1, 3, 2, 8))], name="t")
    sine, cosine = (b.input(name, F32, (1, 3, 1, 8)) for name in ("sine", "cosine"))
    first, second = halves(b, x, by, at)
    minus = b.op("NEG", [second], name="minus")
    parts = [minus, first] if not swapped else [first, minus]
    turned = b.op("CONCATENATION", parts, ConcatenationAttrs(-1), name="turned")
    products = b.op("MUL", [cosine, x]), b.op("MUL", [turned, sine])
    return b.output(b.op("ADD", products, name="y"))


@pytest.mark.parametrize("by", ["SPLIT", "SLICE"])
def test_an_embedding_is_recognised(by: str) -> None:
    graph = embedded(by).build()
    assert rewritten(graph, "recognise-rope") == ["EXP", "ROPE"]
    assert graph.ops[1].attrs == RopeAttrs("GPT_NEOX")
    assert [t.name for t in graph.ops[1].inputs if t] == ["t", "sine", "cosine"]


@pytest.mark.parametrize(("at", "swapped"), [(3, False), (4, True)])
def test_other_parts_and_orders_stay(at: int, swapped: bool) -> None:
    graph = embedded("SLICE", at=at, swapped=swapped).build()
    assert "ROPE" not in rewritten(graph, "recognise-rope")
