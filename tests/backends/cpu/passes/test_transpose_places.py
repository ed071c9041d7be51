"""Places that a transpose turns are found in columns."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import PASSES
from circlet.ir import DType, Graph, Tensor
from circlet.ops import NoAttrs
from circlet.ops.bounded import WHERE, WhereAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.passes import PassManager
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native, runnable

TYPES = (DType.FLOAT32, DType.BOOL, DType.INT32, DType.INT64)


def found(values: np.ndarray, is_transposed: bool = True) -> Cases:
    """Places of elements that are not 0, in columns or in rows, and how many they are."""
    cases = Cases()
    rows, columns = (values.size, values.ndim), (values.ndim, values.size)
    made = [Tensor("rows", DType.INT64, rows), Tensor("count", DType.INT64, (1,))]
    cases.builder.op_many(WHERE, [cases.given(values), None], made, WhereAttrs())
    order = cases.constant(np.array([1, 0], np.int32))
    if is_transposed:
        made[0] = cases.builder.op("TRANSPOSE", [made[0], order], NoAttrs(), shape=columns)
    cases.outputs = made
    return cases


def turned(cases: Cases) -> Graph:
    """The places in columns as one op."""
    graph = cases.graph()
    assert PassManager((PASSES.made(["transpose-places"], {})[0],), check=True).run(graph).applied
    assert [op.kind for op in graph.ops] == [WHERE]
    return graph


def sparse(dtype: DType, shape: tuple[int, ...], zeros: float) -> np.ndarray:
    """Elements of which some are 0, or -0."""
    random = np.random.default_rng(3)
    values = random.integers(1, 9, shape) * (random.random(shape) >= zeros)
    return (-values if dtype.is_float else values).astype(dtype.numpy)


@each_width
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("is_transposed", [True, False], ids=["columns", "rows"])
def test_places_are_those_of_the_record(is_transposed: bool, dtype: DType, target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    for shape in ((3, 70), (2, 3, 2, 33), (133,)):
        for zeros in (0.0, 0.3, 0.95, 1.0):
            cases = found(sparse(dtype, shape, zeros), is_transposed)
            wanted, count = evaluate_graph(cases.graph(), cases.inputs)
            graph = turned(cases) if is_transposed else cases.graph()
            got = run_native(graph, cases.inputs, target)
            np.testing.assert_array_equal(got[1], count)
            kept = (slice(None), slice(count[0])) if is_transposed else slice(count[0])
            np.testing.assert_array_equal(got[0][kept], wanted[kept])


def test_places_that_are_read_as_rows_too_stay() -> None:
    cases = found(np.ones((3, 4), np.float32))
    cases.outputs.append(cases.builder.graph.ops[0].outputs[0])
    assert not PASSES.made(["transpose-places"], {})[0].run(cases.graph())
