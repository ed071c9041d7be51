"""Branches of graphs that are cut, and that what is cut can run in turn and side by side."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import Builder
from circlet.plan import branches as module
from circlet.plan.branches import branches, levels, longest_path
from circlet.plan.partition import partition

F32 = DType.FLOAT32
HEAVY, LIGHT = 1 << 20, 4


class Sketch:
    """Graphs of ops that are heavy or light by the size of their tensors."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.x = self.builder.input("x", F32, (HEAVY,))

    def op(self, *inputs: Tensor, size: int = HEAVY, name: str = "") -> Tensor:
        return self.builder.op("ADD", inputs, shape=(size,), name=name)

    def graph(self, *outputs: Tensor) -> Graph:
        return self.builder.output(*outputs).build()


def sets_of(graph: Graph) -> set[frozenset[str]]:
    """The names of the ops of each branch."""
    found: dict[int, set[str]] = {}
    for op, number in branches(graph).items():
        found.setdefault(number, set()).add(op.outputs[0].name)
    return {frozenset(names) for names in found.values()}


def edges(graph: Graph) -> list[tuple[Op, Op]]:
    producers = graph.producers()
    return [(producers[t], op) for op in graph.ops for t in op.inputs if t in producers]


def test_towers_between_a_fork_and_a_join_are_branches() -> None:
    s = Sketch()
    stem = s.op(s.x, name="stem")
    left = s.op(s.op(stem, name="a"), name="b")
    right = s.op(s.op(stem, name="c"), name="d")
    graph = s.graph(s.op(s.op(left, right, name="join"), name="tail"))
    assert sets_of(graph) == {frozenset("ab"), frozenset("cd")}


def test_towers_over_inputs_and_heads_of_outputs_are_branches() -> None:
    s = Sketch()
    y = s.builder.input("y", F32, (HEAVY,))
    a, b = s.op(s.op(s.x, name="a"), name="b"), s.op(s.op(y, name="c"), name="d")
    join = s.op(a, b, name="join")
    graph = s.graph(s.op(join, name="e"), s.op(join, name="f"))
    assert sets_of(graph) == {frozenset("ab"), frozenset("cd"), frozenset("e"), frozenset("f")}


def test_branches_inside_of_a_skip_connection_are_found() -> None:
    s = Sketch()
    top = s.op(s.x, name="top")
    inner = s.op(top, name="inner")
    left, right = s.op(inner, name="left"), s.op(inner, name="right")
    bottom = s.op(s.op(left, right, name="join"), name="bottom")
    graph = s.graph(s.op(top, bottom, name="skip"))
    assert sets_of(graph) == {frozenset({"left"}), frozenset({"right"})}


def test_a_light_branch_beside_a_heavy_one_is_not_cut() -> None:
    s = Sketch()
    stem = s.op(s.x, size=LIGHT, name="stem")
    light = s.op(s.op(stem, size=LIGHT, name="light"), size=LIGHT, name="lighter")
    graph = s.graph(s.op(s.op(stem, name="heavy"), light, name="join"))
    assert sets_of(graph) == set()


def test_branches_that_touch_are_not_cut() -> None:
    s = Sketch()
    stem = s.op(s.x, name="stem")
    left = s.op(stem, name="left")
    right = s.op(stem, left, name="right")
    assert sets_of(s.graph(s.op(left, right, name="join"))) == set()


def test_the_search_in_a_chain_of_thousands_of_forks_is_not_quadratic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s = Sketch()
    t = s.x
    for _ in range(4000):
        t = s.op(s.op(t), s.op(t))
    graph = s.graph(t)
    looks: list[int] = []

    def counted(parent: dict[int, int], op: int) -> int:
        looks.append(op)
        return root(parent, op)

    root = module._root
    monkeypatch.setattr(module, "_root", counted)
    assert branches(graph) == {}  # each is too small a part of the whole
    assert len(looks) < 200 * len(graph.ops)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Graph, dict[Op, str]]:
    s = Sketch()
    tensors = [s.x]
    for _ in range(draw(st.integers(2, 24))):
        read = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=2))
        tensors.append(s.op(*read, size=draw(st.sampled_from([HEAVY, HEAVY, LIGHT]))))
    read_ones = {t for op in s.builder.graph.ops for t in op.inputs}
    graph = s.graph(*[t for t in tensors[1:] if t not in read_ones])
    return graph, {op: draw(st.sampled_from(["cpu", "reference"])) for op in graph.ops}


@given(networks())
@settings(max_examples=150)
def test_whatever_is_cut_is_convex_and_its_branches_do_not_touch(
    network: tuple[Graph, dict[Op, str]],
) -> None:
    graph, backend_of = network
    found, level = branches(graph), levels(graph, backend_of)
    numbers: dict[int, set[Op]] = {}
    for op, number in found.items():
        numbers.setdefault(number, set()).add(op)
    for first, second in edges(graph):
        assert level[first] + (backend_of[first] != backend_of[second]) <= level[second]
    for apart in (found, level, {op: (level[op], found.get(op, 0)) for op in graph.ops}):
        parts = partition(graph, backend_of, apart)
        place = {op: number for number, part in enumerate(parts) for op in part.ops}
        assert len(place) == len(graph.ops)
        assert all(place[first] <= place[second] for first, second in edges(graph))
        assert longest_path(parts) > 0
        for part in parts:
            assert len({apart.get(op) for op in part.ops}) == 1
