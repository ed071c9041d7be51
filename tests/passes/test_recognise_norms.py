from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.compiler.optimize import optimize
from circlet.errors import InputError
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.verify import verify
from circlet.passes import file_pipeline, make
from circlet.passes.cone import Cone, Reals
from circlet.passes.contract import contract_of
from circlet.passes.recognise_norms import RecogniseNorms
from circlet.passes.totals import totals
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import kinds_of, rewritten

RNG = np.random.default_rng(7)


class Spelled:
    """Float arithmetic over tensors, as networks spell it."""

    def __init__(self, *sizes: int) -> None:
        self.b = builder()
        self.x = self.b.input("x", DType.FLOAT32, sizes)
        self.gamma, self.beta = (self.channels(*sizes[-1:]) for _ in range(2))

    def channels(self, *sizes: int) -> Tensor:
        return self.b.constant("channels", RNG.uniform(0.5, 2, sizes).astype(np.float32))

    def __call__(self, kind: str, *operands: Tensor | float) -> Tensor:
        constants = (np.array(t, np.float32) for t in operands if not isinstance(t, Tensor))
        inputs = [
            t if isinstance(t, Tensor) else self.b.constant("number", next(constants))
            for t in operands
        ]
        return self.b.op(kind, inputs)

    def mean(self, x: Tensor, *axes: int) -> Tensor:
        axis = self.b.constant("axes", np.array(axes, np.int32))
        return self.b.op("MEAN", [x, axis], ReducerAttrs(keep_dims=True))

    def variance(self, *axes: int) -> Tensor:
        return self.mean(self("SQUARED_DIFFERENCE", self.x, self.mean(self.x, *axes)), *axes)


def rms_by_reciprocal(s: Spelled) -> Tensor:
    root = s("RSQRT", s("ADD", s.mean(s("SQUARE", s.x), -1), 1e-6))
    return s("MUL", s.gamma, s("MUL", s.x, root))


def rms_without_scale(s: Spelled) -> Tensor:
    return s("MUL", s.x, s("RSQRT", s("ADD", s.mean(s("SQUARE", s.x), -1), 1e-6)))


def rms_by_division(s: Spelled) -> Tensor:
    root = s("SQRT", s("ADD", 1e-6, s.mean(s("MUL", s.x, s.x), 2)))
    return s("DIV", s("MUL", s.x, s.gamma), root)


def rms_with_offset(s: Spelled) -> Tensor:
    return s("ADD", rms_by_reciprocal(s), s.beta)


def instance(s: Spelled) -> Tensor:
    root = s("RSQRT", s("ADD", s.variance(1, 2), 1e-5))
    centred = s("SUB", s.x, s.mean(s.x, 1, 2))
    return s("ADD", s("MUL", s("MUL", centred, root), s.gamma), s.beta)


def instance_with_folded_scale(s: Spelled) -> Tensor:
    factor = s("MUL", s("RSQRT", s("ADD", s.variance(1, 2), 1e-5)), s.gamma)
    moved = s("SUB", s.beta, s("MUL", s.mean(s.x, 1, 2), factor))
    return s("ADD", s("MUL", s.x, factor), moved)


def layer(s: Spelled) -> Tensor:
    centred = s("SUB", s.x, s.mean(s.x, -1))
    return s("MUL", centred, s("RSQRT", s("ADD", s.variance(-1), 1e-5)))


def sum_instead_of_mean(s: Spelled) -> Tensor:
    axis = s.b.constant("axes", np.array([2], np.int32))
    total = s.b.op("SUM", [s("SQUARE", s.x), axis], ReducerAttrs(keep_dims=True))
    return s("MUL", s.x, s("RSQRT", s("ADD", total, 1e-6)))


IMAGE, ROWS = (2, 4, 3, 5), (2, 3, 8)


@pytest.mark.parametrize(
    ("spelled", "sizes", "kind", "epsilon"),
    [
        (rms_by_reciprocal, ROWS, "RMS_NORM", 1e-6),
        (rms_by_division, ROWS, "RMS_NORM", 1e-6),
        (rms_with_offset, ROWS, "RMS_NORM", 1e-6),
        (instance, IMAGE, "INSTANCE_NORM", 1e-5),
        (instance_with_folded_scale, IMAGE, "INSTANCE_NORM", 1e-5),
    ],
)
def test_a_normalisation_is_recognised_as_files_spell_it(
    spelled: Callable[[Spelled], Tensor], sizes: Sequence[int], kind: str, epsilon: float
) -> None:
    s = Spelled(*sizes)
    graph = s.b.output(spelled(s)).build()
    assert rewritten(graph, "recognise-norms", tolerance=1e-5) == [kind]
    (op,) = graph.ops
    assert isinstance(op.attrs, InstanceNormAttrs | RmsNormAttrs)
    assert op.attrs.epsilon == pytest.approx(epsilon)
    np.testing.assert_array_equal(np.asarray(op.inputs[1] and op.inputs[1].data), s.gamma.data)
    assert len(op.inputs) == (2 if spelled in (rms_by_reciprocal, rms_by_division) else 3)


def test_images_of_open_or_large_sizes_are_recognised() -> None:
    for height in (None, 4096):
        s = Spelled(1, 4, 3, 5)
        s.x.shape = (None, height, 4096, 5)
        graph = s.b.output(instance(s)).build()
        for op in graph.ops:
            for tensor in op.outputs:
                sizes = s.x.shape[:3] if tensor.shape[1] != 1 else (None, 1, 1)
                tensor.shape = (*sizes, 5)
        assert make("recognise-norms").run(graph)
        assert kinds_of(graph) == ["INSTANCE_NORM"]


@pytest.mark.parametrize("spelled", [instance, instance_with_folded_scale])
def test_an_instance_norm_clamps_as_the_last_op_did(spelled: Callable[[Spelled], Tensor]) -> None:
    s = Spelled(*IMAGE)
    graph = s.b.output(spelled(s)).build()
    graph.ops[-1].attrs = AddAttrs("RELU6")
    assert rewritten(graph, "recognise-norms", tolerance=1e-5) == ["INSTANCE_NORM"]
    assert graph.ops[0].attributes(InstanceNormAttrs).activation == "RELU6"


def test_a_clamp_before_the_last_op_is_no_part_of_a_normalisation() -> None:
    s = Spelled(*IMAGE)
    graph = s.b.output(instance(s)).build()
    graph.ops[-2].attrs = replace(graph.ops[-2].attrs, activation="RELU")  # type: ignore[type-var]
    assert rewritten(graph, "recognise-norms", tolerance=1e-5)[-1] == "ADD"


@pytest.mark.parametrize("spelled", [layer, sum_instead_of_mean])
def test_other_normalisations_stay(spelled: Callable[[Spelled], Tensor]) -> None:
    s = Spelled(*ROWS)
    graph = s.b.output(spelled(s)).build()
    kinds = kinds_of(graph)
    assert rewritten(graph, "recognise-norms", tolerance=1e-5) == kinds


def layer_with_scale(s: Spelled) -> Tensor:
    return s("ADD", s("MUL", layer(s), s.gamma), s.beta)


@pytest.mark.parametrize(
    ("spelled", "sizes", "kinds"),
    [
        (layer, ROWS, ["CUSTOM:onnx.LayerNormalization"]),
        (layer_with_scale, ROWS, ["CUSTOM:onnx.LayerNormalization"]),
        (instance, IMAGE, ["TRANSPOSE", "CUSTOM:onnx.InstanceNormalization", "TRANSPOSE"]),
        (rms_with_offset, ROWS, None),
    ],
)
def test_onnx_files_have_operators_of_their_own(
    spelled: Callable[[Spelled], Tensor], sizes: Sequence[int], kinds: list[str] | None
) -> None:
    s = Spelled(*sizes)
    graph = s.b.output(spelled(s)).build()
    inputs, before, kept = random_inputs(graph), totals(graph), kinds_of(graph)
    (wanted,) = evaluate(graph, inputs)
    chosen = RecogniseNorms(format="onnx")
    assert chosen.run(graph) is (kinds is not None)
    verify(graph)
    assert [op.label for op in graph.ops] == (kinds or kept)
    assert contract_of(chosen).growth(before, totals(graph)) == ""
    np.testing.assert_allclose(evaluate(graph, inputs)[0], wanted, rtol=0, atol=1e-5)


def test_other_formats_have_no_normalisations() -> None:
    with pytest.raises(InputError, match="tflite"):
        make("recognise-norms", format="tflite")


def test_a_written_onnx_file_holds_no_more_nodes_than_were_read() -> None:
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    make_node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make_node("Conv", ["x", "w"], ["c"]),
        make_node("InstanceNormalization", ["c", "s", "b"], ["i"], epsilon=1e-5),
        make_node("Relu", ["i"], ["r"]),
        make_node("LayerNormalization", ["r", "g", "h"], ["y"], epsilon=1e-5),
    ]
    lists = {"s": 3, "b": 3, "g": 6, "h": 6}
    constants = [
        onnx.numpy_helper.from_array(np.linspace(0.5, 2, size, dtype=np.float32), name)
        for name, size in lists.items()
    ]
    filters = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3, 1, 1)
    constants.append(onnx.numpy_helper.from_array(filters, "w"))
    x, y = (info(name, onnx.TensorProto.FLOAT, [2, 3, 4, 6]) for name in "xy")
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], constants)
    opset = onnx.helper.make_opsetid("", 17)
    given = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    done = optimize(given, "O2", format="onnx", check=True)
    written = onnx.load_from_string(dumps(done.model, "onnx"))
    kinds = [node.op_type for node in written.graph.node]
    assert kinds == ["Conv", "InstanceNormalization", "Relu", "LayerNormalization"]
    inputs = random_inputs(load(given).main)
    wanted = evaluate(load(given).main, inputs)[0]
    read = load(written.SerializeToString()).main
    np.testing.assert_allclose(evaluate(read, inputs)[0], wanted, rtol=0, atol=1e-5)


def test_only_levels_for_circle_files_make_what_only_those_hold() -> None:
    for name, is_recognised in (("circle", True), ("tflite", False)):
        s = Spelled(*ROWS)
        graph = s.b.output(rms_by_reciprocal(s)).build()
        file_pipeline("O2", name, check=True).run(graph)
        assert (kinds_of(graph) == ["RMS_NORM"]) is is_recognised


def repeated(count: int, *, with_scale: bool) -> Graph:
    """Normalisations one after the other, each with a gamma and beta of its own."""
    s = Spelled(*ROWS)
    for _ in range(count):
        s.gamma, s.beta = s.channels(8), s.channels(8)
        s.x = rms_with_offset(s) if with_scale else rms_without_scale(s)
    return s.b.output(s.x).build()


def test_each_of_many_normalisations_keeps_its_own_constants() -> None:
    graph = repeated(6, with_scale=True)
    scales = [op.inputs[0] for op in graph.ops if op.inputs[0] and op.inputs[0].is_constant]
    assert rewritten(graph, "recognise-norms", tolerance=1e-5) == ["RMS_NORM"] * 6
    for op, gamma in zip(graph.ops, scales, strict=True):
        assert op.inputs[1] is not None and gamma is not None
        np.testing.assert_array_equal(np.asarray(op.inputs[1].data), np.asarray(gamma.data))


def test_a_list_that_has_another_role_in_one_cone_is_searched_again() -> None:
    """In the first cone of a structure gamma equals beta, so either may be taken for the other."""
    s = Spelled(*ROWS)
    same = s.channels(8)
    for gamma, beta in ((s.gamma, s.beta), (same, s.b.constant("twin", np.asarray(same.data)))):
        s.gamma, s.beta = gamma, beta
        s.x = rms_with_offset(s)
    graph = s.b.output(s.x).build()
    assert rewritten(graph, "recognise-norms", tolerance=1e-5) == ["RMS_NORM"] * 2


@pytest.mark.parametrize("with_scale", [True, False])
def test_what_is_evaluated_grows_no_faster_than_the_normalisations(
    with_scale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, counts = Cone.evaluate, list[int]()

    def counted(cone: Cone, samples: Reals) -> Reals | None:
        counts[-1] += 1
        return evaluate(cone, samples)

    monkeypatch.setattr(Cone, "evaluate", counted)
    for count in (10, 40):
        counts.append(0)
        assert make("recognise-norms").run(repeated(count, with_scale=with_scale))
    assert counts[1] - counts[0] <= (30 if with_scale else 0)  # once for each that has lists
