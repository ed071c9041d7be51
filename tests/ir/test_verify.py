from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import (
    DType,
    Graph,
    Model,
    Op,
    Origin,
    Quantization,
    Requantization,
    Signature,
    Tensor,
)
from circlet.ir.builder import Builder
from circlet.ir.verify import rule_names, verify, violations

pytestmark = pytest.mark.smoke

F32, I8 = DType.FLOAT32, DType.INT8


def relu_model() -> Model:
    b = Builder()
    x = b.input("x", F32, (2,))
    c = b.constant("c", np.ones(2, np.float32))
    y = b.op("ADD", [x, c], name="y", shape=(2,))
    return b.output(b.op("RELU", [y], name="z", shape=(2,))).model("serve")


def with_tensor(tensor: Tensor) -> Model:
    model = relu_model()
    model.main.tensors.append(tensor)
    return model


def changed(change: Callable[[Graph], object]) -> Model:
    model = relu_model()
    change(model.main)
    return model


def quantized(quant: Quantization, shape: tuple[int, ...] = (2, 3)) -> Model:
    return with_tensor(Tensor("bad", I8, shape, quant))


def bare_op(graph: Graph) -> None:
    graph.ops[1].origin = None  # type: ignore[assignment]


def foreign_signature() -> Model:
    model, other = relu_model(), relu_model()
    model.signatures.append(other.signatures[0])
    return model


def signature_of_foreign_tensor() -> Model:
    model = relu_model()
    model.signatures.append(Signature("alien", model.main, {"x": Tensor("t", F32, ())}, {}))
    return model


def op(inputs: list[Tensor | None], outputs: list[Tensor]) -> Op:
    return Op("ADD", inputs, outputs, None, Origin.of(9, "bad"))


def bad_constant() -> Tensor:
    return Tensor("bad", F32, (3,), data=np.zeros(2, np.float32))


SCALES = np.array([1, 2], np.float32)
BAD: dict[str, Callable[[], Model]] = {
    "sizes": lambda: with_tensor(Tensor("bad", F32, (-1,))),
    "default-shape": lambda: with_tensor(Tensor("bad", F32, (None, 2), default_shape=(1, 3))),
    "constant-static": lambda: with_tensor(Tensor("b", F32, (None,), data=np.zeros(1))),
    "constant-data": lambda: with_tensor(bad_constant()),
    "constant-variable": lambda: with_tensor(
        Tensor("bad", F32, (1,), data=np.zeros(1, np.float32), is_variable=True)
    ),
    "variable-rank": lambda: with_tensor(Tensor("bad", F32, (), has_rank=False, is_variable=True)),
    "variable-type": lambda: with_tensor(Tensor("bad", DType.STRING, (1,), is_variable=True)),
    "quant-sizes": lambda: quantized(Quantization(SCALES, np.zeros(1, np.int64))),
    "quant-axis": lambda: quantized(Quantization.per_channel(SCALES, 2)),
    "quant-channels": lambda: quantized(Quantization.per_channel(SCALES, 1)),
    "quant-scale": lambda: quantized(Quantization.per_tensor(float("inf"))),
    "quant-zero-point": lambda: quantized(Quantization.per_tensor(1.0, 256)),
    "kind": lambda: changed(lambda g: setattr(g.ops[0], "kind", "")),
    "origin": lambda: changed(bare_op),
    "requantization": lambda: changed(
        lambda g: setattr(g.ops[0], "requantization", Requantization("thrice"))
    ),
    "op-tensors": lambda: changed(lambda g: g.tensors.remove(g.ops[0].outputs[0])),
    "constant-written": lambda: changed(lambda g: g.ops.append(op([], [g.tensors[1]]))),
    "input-written": lambda: changed(lambda g: g.ops.append(op([], [g.inputs[0]]))),
    "one-producer": lambda: changed(lambda g: g.ops.append(op([], [g.outputs[0]]))),
    "defined": lambda: changed(lambda g: g.ops.pop(0)),
    "order": lambda: changed(lambda g: g.ops.reverse()),
    "op-once": lambda: changed(lambda g: g.ops.append(g.ops[0])),
    "tensors-once": lambda: changed(lambda g: g.tensors.append(g.tensors[0])),
    "inputs-once": lambda: changed(lambda g: g.inputs.append(g.inputs[0])),
    "boundary": lambda: changed(lambda g: g.inputs.append(Tensor("bad", F32, ()))),
    "output-defined": lambda: changed(lambda g: g.ops.pop()),
    "regions": lambda: changed(lambda g: g.ops[0].regions.append(Graph("elsewhere"))),
    "recursion": lambda: changed(lambda g: g.ops[0].regions.append(g)),
    "signature-graph": foreign_signature,
    "signature-tensors": signature_of_foreign_tensor,
}


def test_every_rule_has_one_violating_graph() -> None:
    assert sorted(BAD) == sorted(rule_names())


@pytest.mark.parametrize("rule", BAD)
def test_violating_graph_breaks_the_rule(rule: str) -> None:
    assert rule in [violation.rule for violation in violations(BAD[rule]())]


def test_sound_model_breaks_no_rule() -> None:
    assert list(violations(relu_model())) == []


def test_error_names_operator_tensor_and_rule() -> None:
    with pytest.raises(GraphError) as caught:
        verify(changed(lambda g: g.ops.reverse()))
    assert "operator 'z (RELU)', tensor 'y'" in caught.value.where
    assert "rule 'order'" in caught.value.why


def test_all_violations_are_listed() -> None:
    model = with_tensor(bad_constant())
    model.main.ops.reverse()
    assert [violation.rule for violation in violations(model)] == ["constant-data", "order"]


def test_cycle_is_a_broken_order() -> None:
    b = Builder()
    loop = b.tensor("loop", F32, (1,))
    mid = b.op("RELU", [loop], shape=(1,))
    b.op_many("RELU", [mid], [Tensor("end", F32, (1,))])
    b.graph.ops[1].outputs = [loop]
    assert [violation.rule for violation in violations(b.graph)] == ["order"]


def test_real_networks_name_constants_as_inputs() -> None:
    assert list(violations(changed(lambda g: g.inputs.append(g.tensors[1])))) == []


def test_axis_of_a_list_is_free() -> None:
    assert list(violations(quantized(Quantization.per_channel(SCALES, 3), (2,)))) == []


def test_variables_may_be_read_before_they_are_written() -> None:
    b = Builder()
    state = b.variable("state", F32, (1,))
    y = b.op("RELU", [state], shape=(1,))
    b.graph.ops.append(op([y], [state]))
    assert list(violations(b.output(y).build())) == []
