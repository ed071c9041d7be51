"""Writing what was read: the same network, for LiteRT and for us."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError, FormatError
from circlet.formats import dumps, load
from circlet.ir import BlockwiseQuant, DType, Model
from tests import corpora
from tests.peer import golden_inputs


def run_in_litert(content: bytes, inputs: list[np.ndarray] | None, model: Model) -> list[Any]:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=content,
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    details = interpreter.get_input_details()
    for position, detail in enumerate(details):
        if inputs is not None and tuple(detail["shape"]) != inputs[position].shape:
            interpreter.resize_tensor_input(detail["index"], inputs[position].shape)
    interpreter.allocate_tensors()
    for position, detail in enumerate(details):
        # LiteRT maps a constant input read-only, so setting it crashes.
        if not model.main.tensors[detail["index"]].is_constant:
            value = inputs[position] if inputs is not None else seeded(detail)
            interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    outputs = [
        interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()
    ]
    return [interpreter.get_signature_list(), *outputs]


def seeded(detail: dict[str, Any]) -> np.ndarray:
    rng, dtype = np.random.default_rng(0), np.dtype(detail["dtype"])
    real = rng.uniform(-1, 1, detail["shape"])
    return np.asarray(real if dtype.kind == "f" else real * 2 + 2, dtype)


def runs_in_litert() -> list[str]:
    """The corpus models that LiteRT runs."""
    entries = corpora.index()["models"] if corpora.models() else {}
    names = [name for name in corpora.models() if entries[name]["runs_in_peer"]]
    # person_detect ran as a golden only after a repair of its quantised dimensions.
    return [name for name in names if name != "person_detect.tflite"]


@corpora.each("name", runs_in_litert(), corpora.REPRESENTATIVE)
def test_litert_computes_the_same_from_what_we_write(name: str) -> None:
    path = corpora.corpus(f"models/{name}")
    model = load(path)
    inputs = golden_inputs(path, "rand")
    before = run_in_litert(path.read_bytes(), inputs, model)
    after = run_in_litert(dumps(model), inputs, model)
    assert before[0] == after[0]
    for expected, got in zip(before[1:], after[1:], strict=True):
        assert expected.shape == got.shape
        assert expected.tobytes() == got.tobytes()


def small_networks_that_litert_runs() -> list[str]:
    """Names without those that take long, take strings, or refuse seeded inputs."""
    left_out = ("huge_im2col", "string", "floor_mod", "scatter_nd", "tile_with_bool", "SparseToD")
    entries = corpora.index("singleop/index.json")["models"]
    names = [name for name in corpora.single_ops() if entries[name]["runs_in_peer"]]
    return [name for name in names if not any(word in name for word in left_out)]


@pytest.mark.slow
def test_litert_computes_the_same_from_small_networks_that_we_write() -> None:
    corpora.corpus("singleop")
    compared, differing = 0, []
    for name in small_networks_that_litert_runs():
        path = corpora.corpus(f"singleop/models/{name}")
        try:
            model = load(path)
            before = run_in_litert(path.read_bytes(), None, model)
        except (CircletError, RuntimeError, ValueError):
            continue
        after = run_in_litert(dumps(model), None, model)
        same = [x.tobytes() == y.tobytes() for x, y in zip(before[1:], after[1:], strict=True)]
        compared += 1
        differing += [] if all(same) else [name]
    assert differing == []
    assert compared > 350


def facts(model: Model) -> list[object]:
    """Everything that a file says, in a form that can be compared."""
    return [
        model.description,
        {name: blob.tobytes() for name, blob in model.metadata.items()},
        [signature_facts(model, index) for index in range(len(model.signatures))],
        [[tensor_facts(t) for t in graph.tensors] for graph in model.graphs],
        [[op_facts(graph, op) for op in graph.ops] for graph in model.graphs],
        [positions(graph, [*graph.inputs, *graph.outputs]) for graph in model.graphs],
        [graph.name for graph in model.graphs],
    ]


def signature_facts(model: Model, index: int) -> list[object]:
    signature = model.signatures[index]
    names = [*signature.inputs, *signature.outputs]
    ends = [*signature.inputs.values(), *signature.outputs.values()]
    return [signature.key, names, positions(signature.graph, ends)]


def tensor_facts(tensor: Any) -> list[object]:
    quant = tensor.quant
    arrays = [] if quant is None else [quant.scale, quant.zero_point, quant.minimum, quant.maximum]
    return [
        *(tensor.name, tensor.dtype, tensor.shape, tensor.static_shape, tensor.has_rank),
        *(tensor.is_variable, tensor.extra, tensor.sparsity and vars(tensor.sparsity)),
        None if tensor.data is None else tensor.data.tobytes(),
        *(array.tobytes() for array in arrays),
        quant and [quant.axis, details_facts(quant.details)],
    ]


def details_facts(details: Any) -> object:
    if isinstance(details, BlockwiseQuant):
        return [tensor_facts(tensor) for tensor in details.tensors], details.block_size
    return details and vars(details)


def op_facts(graph: Any, op: Any) -> list[object]:
    ends = [positions(graph, tensors) for tensors in (op.inputs, op.outputs, op.intermediates)]
    return [op.label, op.version, op.attrs, op.extra, op.origin, *ends]


def positions(graph: Any, tensors: list[Any]) -> list[int]:
    index_of = {tensor: index for index, tensor in enumerate(graph.tensors)}
    return [-1 if tensor is None else index_of[tensor] for tensor in tensors]


@pytest.mark.parametrize("format", ["tflite", "circle"])
@corpora.each_model()
def test_every_field_survives_writing_and_reading(name: str, format: str) -> None:
    model = load(corpora.corpus(f"models/{name}"))
    assert facts(load(dumps(model, format))) == facts(model)


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_every_field_of_the_small_networks_survives(format: str) -> None:
    corpora.corpus("singleop")
    for name in corpora.single_ops()[::2]:
        path = corpora.corpus(f"singleop/models/{name}")
        if "0_subgraphs" in name or "add_shared_tensors" in name or "lite_testdata_tr" in name:
            continue
        model = load(path)
        assert facts(load(dumps(model, format))) == facts(model), name


@corpora.each_model()
def test_the_way_through_circle_changes_no_byte(name: str) -> None:
    model = load(corpora.corpus(f"models/{name}"))
    through_circle = load(dumps(model, "circle"))
    assert through_circle.source_format == "circle"
    assert dumps(through_circle, "tflite") == dumps(model, "tflite")


def test_a_type_that_circle_lacks_is_refused_by_name() -> None:
    model = load(corpora.corpus("models/kws_dscnn_int8.tflite"))
    model.main.tensors[3].dtype = DType.INT2
    with pytest.raises(FormatError, match="INT2"):
        dumps(model, "circle")
