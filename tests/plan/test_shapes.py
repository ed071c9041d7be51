from __future__ import annotations

import pytest

from circlet.errors import LimitError
from circlet.ir import DType, Graph
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.build import builder
from circlet.plan.shapes import fix_shapes


def chain(shape: tuple[int | None, ...], default: tuple[int, ...] | None = None) -> Graph:
    """Input -> RELU -> LOGISTIC."""
    b = builder()
    x = b.input("x", DType.FLOAT32, shape)
    x.default_shape = default
    y = b.op("RELU", [x], name="first")
    return b.output(b.op("LOGISTIC", [y], name="second")).build()


def test_known_shapes_stay() -> None:
    graph = chain((2, 3))
    fix_shapes(graph, DEFAULT_LIMITS)
    assert [t.shape for t in graph.tensors] == [(2, 3)] * 3


def test_an_unknown_size_becomes_one_and_flows_through_the_graph() -> None:
    graph = chain((None, 3))
    fix_shapes(graph, DEFAULT_LIMITS)
    assert [t.shape for t in graph.tensors] == [(1, 3)] * 3


def test_the_files_default_is_preferred_and_flows_through_the_graph() -> None:
    graph = chain((None, 3), default=(5, 3))
    fix_shapes(graph, DEFAULT_LIMITS)
    assert [t.shape for t in graph.tensors] == [(5, 3)] * 3
    assert all(t.default_shape is None for t in graph.tensors)


def test_a_tensor_above_the_limit_is_refused_by_name() -> None:
    limits = Limits(tensor_bytes=1000)
    with pytest.raises(LimitError, match=r"x[\s\S]*4000 bytes, the limit is 1000"):
        fix_shapes(chain((10, 100)), limits)


def test_an_input_above_the_limit_is_refused_even_where_nothing_reads_it() -> None:
    graph = builder().build()
    graph.inputs.append(chain((10, 100)).inputs[0])
    with pytest.raises(LimitError, match="where: x"):
        fix_shapes(graph, Limits(tensor_bytes=1000))
