from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError, LimitError
from circlet.formats import load
from circlet.ir import DType, Graph, Model, Op, Tensor
from circlet.ir.regions import reachable
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.opdef import TensorType
from circlet.ops.verify import checked_types
from circlet.plan import shapes
from circlet.plan.shapes import fix_shapes
from tests.attacks.growth import nested
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


def test_an_empty_tensor_of_sizes_beyond_all_addresses_is_refused() -> None:
    with pytest.raises(LimitError, match="no address reaches"):
        fix_shapes(chain((0, 1 << 30, 1 << 30)), DEFAULT_LIMITS)


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


def branch_over_two_sizes() -> Graph:
    """One graph, the sum of squares, as both branches of two IFs over 2 and over 3 elements."""
    inner = builder("squares")
    x = inner.input("x", DType.FLOAT32, (None,))
    axis = inner.constant("axis", np.array([0], np.int32))
    squares = inner.output(inner.op("SUM", [inner.op("MUL", [x, x]), axis], name="sum")).build()
    b = builder()
    flag = b.input("flag", DType.BOOL, (1,))
    given = [b.input("two", DType.FLOAT32, (2,)), b.input("three", DType.FLOAT32, (3,))]
    sums = [Tensor(f"sum of {x.name}", DType.FLOAT32, ()) for x in given]
    for x, total in zip(given, sums, strict=True):
        b.op_many("IF", [flag, x], [total])
        b.graph.ops[-1].regions = [squares, squares]
    return b.output(b.op("ADD", sums, name="y")).build()


def test_a_graph_that_is_called_with_two_sizes_becomes_two() -> None:
    graph = branch_over_two_sizes()
    fix_shapes(graph, DEFAULT_LIMITS)
    first, second = (op.regions for op in graph.ops[:2])
    assert first[0] is first[1] is not second[0] is second[1]
    assert [part.ops[0].outputs[0].shape for part in (first[0], second[0])] == [(2,), (3,)]


@pytest.mark.parametrize("backends", [("cpu",), ("reference",)])
def test_each_call_of_a_graph_computes_with_its_own_sizes(backends: tuple[str, ...]) -> None:
    session = Session(Model([*reachable(branch_over_two_sizes())]), backends=backends)
    flag = np.array([True])
    (y,) = session.run([flag, np.array([1, 2], np.float32), np.full(3, 2, np.float32)]).values()
    assert y == 17


def test_copies_of_graphs_for_many_sizes_are_bounded() -> None:
    with pytest.raises(LimitError, match="too many sizes"):
        fix_shapes(branch_over_two_sizes(), Limits(ops=8))


def test_a_graph_is_looked_at_once_however_many_call_it() -> None:
    model = load(nested(["IF"], 20))
    calls = Counter[Op]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "checked_types", counting(calls))
        fix_shapes(model.main, DEFAULT_LIMITS)
    assert set(calls.values()) == {1}
    assert len(calls) == sum(len(graph.ops) for graph in model.graphs)


def counting(calls: Counter[Op]) -> Callable[..., Sequence[TensorType]]:
    """`checked_types` that counts how often it is asked about each op."""

    def counted(op: Op, graph: Graph, *, resized: bool = False) -> Sequence[TensorType]:
        calls[op] += 1
        return checked_types(op, graph, resized=resized)

    return counted


def loop_that_slices(taken: int) -> Graph:
    """Three turns of x = the first rows of x + 1, as many as a variable of the loop says."""
    condition = builder("condition")
    count = condition.input("count", DType.INT32, ())
    condition.input("x", DType.FLOAT32, (None, None))
    condition.input("rows", DType.INT32, (1,))
    condition.output(condition.op("LESS", [count, condition.constant("3", np.int32(3))], name="c"))
    body = builder("body")
    count, x, rows = (
        body.input("count", DType.INT32, ()),
        body.input("x", DType.FLOAT32, (None, None)),
        body.input("rows", DType.INT32, (1,)),
    )
    shape = body.op("SHAPE", [x], name="shape", dtype=DType.INT32)
    ends = [body.constant(name, np.array([n], np.int32)) for name, n in (("1", 1), ("2", 2))]
    width = body.op("STRIDED_SLICE", [shape, *ends, ends[0]], name="width")
    sizes = body.op("CONCATENATION", [rows, width], ConcatenationAttrs(0), name="sizes")
    more = body.op("ADD", [x, body.constant("one", np.float32(1))], name="more")
    begin = body.op("MUL", [sizes, body.constant("none", np.zeros(2, np.int32))], name="begin")
    body.output(body.op("ADD", [count, body.constant("next", np.int32(1))], name="counted"))
    body.output(body.op("SLICE", [more, begin, sizes], name="part"), rows)
    main = builder("main")
    given = [
        main.constant("start", np.int32(0)),
        main.input("x", DType.FLOAT32, (4, 5)),
        main.constant("rows", np.array([taken], np.int32)),
    ]
    results = [Tensor(f"{t.name} after", t.dtype, t.shape) for t in given]
    main.op_many("WHILE", given, results)
    graph = main.output(results[1]).build()
    graph.ops[0].regions = [condition.build(), body.build()]
    return graph


def test_sizes_that_a_loop_computes_from_sizes_are_known_where_no_turn_changes_them() -> None:
    graph = loop_that_slices(4)
    fix_shapes(graph, DEFAULT_LIMITS)
    assert graph.outputs[0].shape == (4, 5)
    assert "SHAPE" not in {op.kind for part in reachable(graph) for op in part.ops}


def test_sizes_that_a_turn_changes_stay_open() -> None:
    graph = loop_that_slices(2)
    fix_shapes(graph, DEFAULT_LIMITS)
    assert graph.outputs[0].shape[0] is None


@pytest.mark.parametrize(("taken", "backends"), [(4, ["cpu"]), (2, ["cpu", "reference"])])
def test_a_loop_computes_the_same_whether_its_sizes_are_known(
    taken: int, backends: list[str]
) -> None:
    session = Session(Model([*reachable(loop_that_slices(taken))]), backends=backends)
    (y,) = session.run([np.zeros((4, 5), np.float32)]).values()
    np.testing.assert_array_equal(y, np.full((taken, 5), 3, np.float32))
