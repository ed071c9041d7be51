from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError, LimitError
from circlet.ir import DType, Graph
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.build import builder
from circlet.plan.shapes import fix_shapes
from tests.windows import conv2d_attrs

pytestmark = pytest.mark.smoke


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


def window(height: int, padding: str = "VALID") -> Graph:
    """A convolution with a window of 3 x 3 over an image of `height` x 8."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, height, 8, 4))
    weights = b.constant("w", np.ones((2, 3, 3, 4), np.float32))
    b.output(b.op("CONV_2D", [x, weights], conv2d_attrs(padding, 1, 1), name="y"))
    return b.build()


@pytest.mark.parametrize("resized", [False, True])
def test_sizes_that_a_window_does_not_fit_are_refused(resized: bool) -> None:
    graph = window(8)
    graph.inputs[0].shape = (1, 2, 8, 4)
    graph.outputs[0].shape = (None,) * 4
    with pytest.raises(GraphError, match="window must fit"):
        fix_shapes(graph, DEFAULT_LIMITS, resized=resized)


def test_a_resize_does_not_ask_again_what_sizes_cannot_change() -> None:
    graph = window(8)
    op = graph.ops[0]
    op.attrs = conv2d_attrs("SAME", 1, 1, "UNKNOWN")
    graph.outputs[0].shape = (None,) * 4
    with pytest.raises(GraphError, match="activation must be one of"):
        fix_shapes(graph, DEFAULT_LIMITS)
    fix_shapes(graph, DEFAULT_LIMITS, resized=True)
    assert graph.outputs[0].static_shape == (1, 8, 8, 2)
