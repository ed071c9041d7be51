from __future__ import annotations

import pytest

from circlet.errors import PlacementError, UnsupportedOpsError
from circlet.ir import DType, Graph, Op
from circlet.ops.build import builder
from circlet.placement.interface import Reason, Supported
from circlet.placement.rule import place

pytestmark = pytest.mark.smoke


class Only:
    """A backend that takes some kinds."""

    def __init__(self, name: str, *kinds: str) -> None:
        self.name = name
        self._kinds = kinds

    def supports(self, op: Op) -> Supported | Reason:
        if op.kind in self._kinds:
            return Supported("somehow")
        return Reason(f"{self.name} has no kernel for {op.kind}")


def graph(*kinds: str) -> Graph:
    b = builder()
    t = b.input("x", DType.FLOAT32, (4,))
    for index, kind in enumerate(kinds):
        t = b.op(kind, [t], name=f"layer{index}/{kind}", shape=(4,))
    return b.output(t).build()


EVERYTHING = Only("numpy", "RELU", "TANH", "LOGISTIC")


def test_an_op_goes_to_the_first_backend_that_takes_it() -> None:
    rows = place(graph("RELU", "TANH"), [Only("fast", "RELU"), EVERYTHING])
    assert [row.backend for row in rows] == ["fast", "numpy"]


def test_the_refusals_on_the_way_are_kept() -> None:
    rows = place(graph("RELU", "TANH"), [Only("a"), Only("b", "RELU"), EVERYTHING])
    assert rows[0].refused == (("a", "a has no kernel for RELU"),)
    assert [name for name, _ in rows[1].refused] == ["a", "b"]


def test_ops_that_nobody_takes_are_reported_together_by_source_name() -> None:
    with pytest.raises(UnsupportedOpsError) as caught:
        place(graph("RELU", "TANH", "LOGISTIC"), [Only("a", "RELU"), Only("b", "RELU")])
    entries = caught.value.entries
    assert [entry.source for entry in entries] == ["layer1/TANH", "layer2/LOGISTIC"]
    assert entries[0].reason == "a has no kernel for TANH; b has no kernel for TANH"
    assert entries[0].dtypes == "FLOAT32 -> FLOAT32"
    assert "layer2/LOGISTIC" in str(caught.value)


def test_strict_names_the_op_and_the_first_backends_reason() -> None:
    with pytest.raises(PlacementError) as caught:
        place(graph("RELU", "TANH"), [Only("fast", "RELU"), EVERYTHING], strict=True)
    assert caught.value.where == "layer1/TANH"
    assert "fast has no kernel for TANH" in caught.value.why


def test_strict_is_content_where_the_first_backend_takes_all() -> None:
    rows = place(graph("RELU"), [EVERYTHING, Only("other")], strict=True)
    assert [row.refused for row in rows] == [()]


def test_an_unsupported_op_is_reported_as_such_even_if_strict() -> None:
    with pytest.raises(UnsupportedOpsError):
        place(graph("RELU", "EXP"), [EVERYTHING], strict=True)


def test_a_graph_without_ops_has_an_empty_table() -> None:
    assert place(graph(), [EVERYTHING]) == []
