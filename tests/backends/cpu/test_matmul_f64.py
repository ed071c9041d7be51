"""MatMul and Gemm of doubles give the records' results, to the last bits of a double."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.backends.cpu.lowering import LOWERINGS
from circlet.errors import GraphError
from circlet.ir import DType, Tensor
from circlet.ops import get
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_width

Shape = tuple[int, ...]
F64 = DType.FLOAT64

PRODUCTS: tuple[tuple[Shape, Shape], ...] = (
    ((1, 1), (1, 1)),
    ((1, 30), (30, 3)),
    ((1, 70), (70, 50)),
    ((17, 9), (9, 33)),
    ((64, 31), (31, 100)),
    ((40,), (40,)),
    ((40,), (40, 21)),
    ((7, 40), (40,)),
    ((40,), (3, 40, 6)),
    ((2, 1, 5, 8), (3, 8, 40)),
    ((3, 5, 8), (8, 19)),
)
# Sizes of A, B and C, and attributes.
GEMMS: tuple[tuple[Shape, Shape, Shape | None, dict[str, object]], ...] = (
    ((5, 9), (9, 20), None, {}),
    ((5, 9), (20, 9), (20,), {"transB": 1}),
    ((9, 5), (9, 33), (5, 1), {"transA": 1, "alpha": 0.5}),
    ((9, 16), (40, 9), (), {"transA": 1, "transB": 1, "alpha": -2.0, "beta": 0.25}),
    ((30, 7), (7, 17), (30, 17), {"beta": 3.0}),
    ((1, 7), (7, 17), (1, 17), {}),
    ((6, 7), (7, 1), (1,), {}),
)


def add(cases: Cases, kind: str, operands: Sequence[Tensor | None], **attributes: object) -> None:
    """A node of doubles, which becomes an output."""
    made = Tensor(f"made{len(cases.outputs)}", F64, ())
    attrs = OnnxAttrs(tuple(sorted(attributes.items())))
    cases.outputs += cases.builder.op_many(
        "CUSTOM", operands, [made], attrs, custom_code=f"{PREFIX}{kind}"
    )
    op = cases.builder.graph.ops[-1]
    made.shape = get(op).infer(op)[0].shape


def given(cases: Cases, shape: Shape | None, *, constant: bool = False) -> Tensor | None:
    """An operand of doubles, or none."""
    if shape is None:
        return None
    values = cases.values(F64, shape)
    return cases.constant(values) if constant else cases.given(np.asarray(values))


def products_of_doubles() -> Cases:
    """Every pair and every Gemm, its right operand and addend computed or constant."""
    cases = Cases()
    for left, right in PRODUCTS:
        for constant in (False, True):
            operands = given(cases, left), given(cases, right, constant=constant)
            add(cases, "MatMul", operands)
    for a, b, c, attributes in GEMMS:
        for constant in (False, True):
            others = (given(cases, shape, constant=constant) for shape in (b, c))
            add(cases, "Gemm", [given(cases, a), *others], **attributes)
    return cases


@each_width
def test_products_of_doubles_equal_the_record(target: str) -> None:
    cases = products_of_doubles()
    for op in cases.graph().ops:
        assert not isinstance(LOWERINGS.choose(op, parse_target("native")), str)
    cases.check(target, threads=2, tolerance=1e-14)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0))])
def test_empty_products_are_left_to_numpy(shapes: tuple[Shape, Shape]) -> None:
    cases = Cases()
    add(cases, "MatMul", [given(cases, shape) for shape in shapes])
    (op,) = cases.graph().ops
    assert str(LOWERINGS.choose(op, parse_target("native"))).endswith("a size is 0")


def test_depths_that_differ_are_refused() -> None:
    cases = Cases()
    with pytest.raises(GraphError, match="do not fit together"):
        add(cases, "MatMul", [given(cases, (2, 3)), given(cases, (4, 2))])
    with pytest.raises(GraphError, match="do not fit together"):
        add(cases, "Gemm", [given(cases, (2, 3)), given(cases, (4, 2))])
