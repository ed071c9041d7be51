from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session, save
from circlet.compiler.template import Template
from circlet.errors import UnsupportedOpsError
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.options import Options
from tests.sparse import Storage, sparse_constant

STORAGES = {
    "rows": Storage((0, 1), (1,)),
    "columns": Storage((1, 0), (1,)),
    "both": Storage((0, 1), (0, 1)),
    "blocks": Storage((0, 1, 2, 3), (1,), ((0, 4), (1, 2))),
    "blocks of rows": Storage((0, 1, 2), (1,), ((0, 4),)),
    "blocks by columns": Storage((1, 0, 2), (0, 1), ((1, 8),)),
    "inner first": Storage((0, 1, 3, 2), (1,), ((0, 4), (1, 2))),
    "dense": Storage((0, 1), ()),
}
FILTERS = {
    "pixels": Storage((0, 1, 2, 3), (3,)),
    "blocks of channels": Storage((0, 1, 2, 3, 4), (3,), ((0, 4),)),
    "channels first": Storage((3, 0, 1, 2), (1, 3)),
}


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(len(dtype) + sum(shape))
    whole = rng.integers(-100, 100, shape)
    rows = rng.random((shape[0], *(1 for _ in shape[1:]))) > 0.2
    return np.where((rng.random(shape) > 0.7) & rows, whole, 0).astype(dtype)


def densified(weights: Tensor, *, is_output: bool = True) -> Graph:
    b = builder()
    b.graph.tensors.append(weights)
    dense = b.op("DENSIFY", [weights], name="dense", quant=weights.quant)
    if is_output:
        x = b.input("x", DType.FLOAT32, (1,))
        b.output(b.op("NEG", [x], name="y"))
        return b.output(dense).build()
    kept = dense if dense.dtype is DType.FLOAT32 else b.op("DEQUANTIZE", [dense], name="real")
    if len(weights.shape) == 4:
        x = b.input("x", DType.FLOAT32, (1, 5, 5, weights.static_shape[3]))
        bias = b.constant("bias", np.zeros(weights.static_shape[0], np.float32))
        return b.output(b.op("CONV_2D", [x, kept, bias], Conv2DAttrs(), name="y")).build()
    x = b.input("x", DType.FLOAT32, (2, weights.static_shape[1]))
    return b.output(b.op("FULLY_CONNECTED", [x, kept], FullyConnectedAttrs(), name="y")).build()


def litert_results(path: Path, x: np.ndarray) -> list[np.ndarray]:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    interpreter = litert.Interpreter(
        str(path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def opened(path: Path) -> Graph:
    """The network as it is planned, before any level's passes."""
    return Template.read(path, Options()).copy().main


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", STORAGES)
def test_all_elements_are_those_of_litert(name: str, dtype: str, tmp_path: Path) -> None:
    dense = values(dtype, (8, 16))
    quant = Quantization.per_tensor(0.5) if dtype == "int8" else None
    path = tmp_path / "sparse.tflite"
    save(Model([densified(sparse_constant("w", dense, STORAGES[name], quant))]), path)
    result = Session(path, backends=["reference"]).run([np.ones(1, np.float32)])["dense"]
    np.testing.assert_array_equal(result, dense)
    np.testing.assert_array_equal(litert_results(path, np.ones(1, np.float32))[1], dense)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_pruned_convolution_reads_them_natively(name: str, dtype: str, tmp_path: Path) -> None:
    weights = sparse_constant("w", values(dtype, (8, 1, 1, 12)), FILTERS[name])
    path = tmp_path / "conv.tflite"
    save(Model([densified(weights, is_output=False)]), path)
    x = np.random.default_rng(0).standard_normal((1, 5, 5, 12)).astype(np.float32)
    assert [op.kind for op in opened(path).ops] == ["CONV_2D"]
    (result,) = Session(path, strict=True, threads=1).run([x]).values()
    wanted = litert_results(path, x)[0]
    np.testing.assert_allclose(result, wanted, atol=1e-5 * np.abs(wanted).max())


def test_hybrid_layers_read_sparse_bytes(tmp_path: Path) -> None:
    b = builder()
    quant = Quantization.per_tensor(0.25)
    storage = Storage((0, 1, 2), (1,), ((1, 16),))
    weights = sparse_constant("w", values("int8", (8, 32)), storage, quant)
    b.graph.tensors.append(weights)
    x = b.input("x", DType.FLOAT32, (3, 32))
    y = b.op("FULLY_CONNECTED", [x, weights], FullyConnectedAttrs(), name="y")
    path = tmp_path / "hybrid.tflite"
    save(b.output(y).model(), path)
    given = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)
    (result,) = Session(path, strict=True, threads=1).run([given]).values()
    wanted = litert_results(path, given)[0]
    np.testing.assert_allclose(result, wanted, atol=1e-5 * np.abs(wanted).max())


def test_a_constant_that_two_read_is_stored_once(tmp_path: Path) -> None:
    weights = sparse_constant("w", values("float32", (8, 16)), STORAGES["rows"])
    b = builder()
    b.graph.tensors.append(weights)
    x = b.input("x", DType.FLOAT32, (2, 16))
    for name in ("a", "b"):
        dense = b.op("DENSIFY", [weights], name=f"dense {name}")
        y = b.op("FULLY_CONNECTED", [x, dense], FullyConnectedAttrs(), name=name)
        b.output(y)
    path = tmp_path / "twice.tflite"
    save(b.model(), path)
    read = [op.inputs[1] for op in opened(path).ops]
    results = Session(path, backends=["reference"]).run([np.ones((2, 16), np.float32)])
    assert read[0] is not None and read[1] is not None and read[0].data is read[1].data
    np.testing.assert_array_equal(results["a"], results["b"])


def test_damaged_storage_is_named(tmp_path: Path) -> None:
    weights = sparse_constant("pruned", values("float32", (8, 16)), STORAGES["rows"])
    assert weights.data is not None
    weights.data = weights.data[:-5]  # fewer elements than indices, the last one incomplete
    path = tmp_path / "damaged.tflite"
    save(Model([densified(weights, is_output=False)]), path)
    with pytest.raises(UnsupportedOpsError, match="sparse storage of constant pruned is damaged"):
        Session(path)
