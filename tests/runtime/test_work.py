"""How much work a file may ask for, and that long operators end when they are told to."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import LimitError
from circlet.ir import DType, Model
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.ops.work import check_work, work_of, work_of_graph
from tests.windows import conv2d_attrs

SHAPES = {"columns": (64, 1), "rows": (1, 64)}
each_backend = pytest.mark.parametrize("backend", ["cpu", "reference"])


def convolutions(count: int, size: int = 64) -> Model:
    """Convolutions in a row, each of about 9 * 16 * 16 operations a pixel."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, size, size, 16))
    weights = b.constant("w", np.zeros((16, 3, 3, 16), np.float32))
    for number in range(count):
        x = b.op("CONV_2D", [x, weights], conv2d_attrs("SAME", 1, 1), name=f"conv{number}")
    return Model([b.output(x).build()])


@each_backend
def test_one_operator_of_much_work_is_refused_by_name(backend: str) -> None:
    limits = Limits(run_work=10**6, run_work_per_file_byte=0)
    with pytest.raises(LimitError, match=r"conv0 \(CONV_2D\)[\s\S]*the limit is 1000000"):
        Session(convolutions(1), backends=(backend,), limits=limits)


def test_many_operators_count_together() -> None:
    graph = convolutions(10).main
    each = work_of(graph.ops[0])
    assert work_of_graph(graph) == 10 * each
    check_work(graph, 10 * each)
    with pytest.raises(LimitError, match="conv0"):
        check_work(graph, 10 * each - 1)


def test_what_depends_on_no_input_counts_apart() -> None:
    b = builder()
    ends = [b.constant(name, np.ones(shape, np.float32)) for name, shape in SHAPES.items()]
    made = b.op("MUL", ends, name="made")
    graph = b.output(b.op("ADD", [b.input("x", DType.FLOAT32, (64, 64)), made])).build()
    once, each = map(work_of, graph.ops)
    check_work(graph, max(once, each))
    with pytest.raises(LimitError, match="more work"):
        check_work(graph, max(once, each) - 1)


def test_a_larger_file_may_ask_for_more() -> None:
    model = convolutions(1)
    work = work_of_graph(model.main)
    constants = 16 * 9 * 16 * 4
    enough = Limits(run_work=0, run_work_per_file_byte=-(-work // constants))
    Session(model, backends=("reference",), limits=enough)
    with pytest.raises(LimitError, match="more work"):
        Session(model, backends=("reference",), limits=Limits(run_work=0, run_work_per_file_byte=1))
