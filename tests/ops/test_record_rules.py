from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from circlet.errors import GraphError, UnsupportedOpsError
from circlet.ir import DType, Graph, Op, RawAttrs, Sparsity, Tensor
from circlet.ir.builder import Builder
from circlet.ops import OpDef, Rule, TensorType, register, unregister
from circlet.ops.verify import RECORD_RULES, unsupported_report, verify, violations

pytestmark = pytest.mark.smoke

F32 = DType.FLOAT32


@dataclass(frozen=True)
class TwiceOptions:
    factor: int = 2


def infer(op: Op) -> list[TensorType]:
    first = op.inputs[0]
    assert first is not None
    if first.shape == (13,):
        raise GraphError("thirteen elements", why="bad luck")
    return [TensorType(first.dtype, first.shape)]


def evaluate(op: Op, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    return []


TWICE = OpDef(
    "TEST_TWICE",
    infer,
    evaluate,
    arity=(1, 2),
    dtypes=("FLOAT32 -> FLOAT32",),
    attrs=TwiceOptions,
    rules=(Rule("even", lambda op: op.attrs == TwiceOptions(2), "the factor must be 2"),),
)


@pytest.fixture(autouse=True)
def twice() -> Iterator[None]:
    register(TWICE)
    yield
    unregister(TWICE.kind)


def graph(count: int = 1, dtype: DType = F32, attrs: object = None, size: int = 3) -> Graph:
    b = Builder()
    xs = [b.input(f"x{i}", dtype, (size,)) for i in range(count)]
    y = b.op("TEST_TWICE", xs, attrs or TwiceOptions(), name="y", dtype=dtype, shape=(size,))
    return b.output(y).build()


def changed(change: Callable[[Op], object]) -> Graph:
    made = graph()
    change(made.ops[0])
    return made


def second_output() -> Graph:
    made = graph()
    made.ops[0].outputs.append(made.add_tensor(Tensor("more", F32, ())))
    return made


BAD: dict[str, Callable[[], Graph]] = {
    "arity": lambda: graph(count=3),
    "required-inputs": lambda: changed(lambda op: op.inputs.__setitem__(0, None)),
    "output-count": second_output,
    "attributes": lambda: graph(attrs=RawAttrs()),
    "dtypes": lambda: graph(dtype=DType.INT8),
    "record-rules": lambda: graph(attrs=TwiceOptions(3)),
    "inferred-types": lambda: changed(lambda op: setattr(op.outputs[0], "shape", (4,))),
}


def test_every_record_rule_has_one_violating_graph() -> None:
    assert list(BAD) == [rule.name for rule in RECORD_RULES]


@pytest.mark.parametrize("rule", BAD)
def test_violating_graph_breaks_the_rule(rule: str) -> None:
    assert [violation.rule for violation in violations(BAD[rule]())] == [rule]


def test_error_names_the_operator_and_the_record_rule() -> None:
    with pytest.raises(GraphError, match=r"the factor must be 2 \(even\)[\s\S]*'y \(TEST_TWICE\)'"):
        verify(graph(attrs=TwiceOptions(3)))


def test_inference_errors_become_violations() -> None:
    (violation,) = violations(graph(size=13))
    assert violation.message == "TEST_TWICE: thirteen elements (bad luck)"


def test_unknown_sizes_agree_with_any() -> None:
    made = changed(lambda op: setattr(op.outputs[0], "shape", (None,)))
    verify(made)


def test_graph_rules_come_first() -> None:
    made = graph(count=3)
    made.ops.clear()
    assert [violation.rule for violation in violations(made)] == ["output-defined"]


def test_unsupported_operators_are_reported_at_once() -> None:
    b = Builder()
    x = b.input("x", DType.INT8, (1,))
    y = b.op("TEST_TWICE", [x], name="first", shape=(1,))
    b.op("CUSTOM", [y], name="second", shape=(1,), custom_code="Mystery", version=3)
    with pytest.raises(UnsupportedOpsError) as caught:
        unsupported_report(b.build())
    assert [entry.source for entry in caught.value.entries] == ["first", "second"]
    row = "second (CUSTOM:Mystery v3, INT8 -> INT8): Circlet does not know this kind of operator"
    assert row in str(caught.value)


def test_sparse_constants_are_reported() -> None:
    made = graph()
    (x,) = made.inputs
    x.sparsity = Sparsity([0], [], [])
    with pytest.raises(UnsupportedOpsError, match="sparse storage"):
        unsupported_report(made)


def test_kinds_without_a_record_pass_the_record_rules() -> None:
    b = Builder()
    b.op("NOBODY_KNOWS", [b.input("x", F32, (1,))], shape=(1,))
    assert list(violations(b.build())) == []
