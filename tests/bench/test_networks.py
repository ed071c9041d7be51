"""Networks are classified by what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.comparison.networks import class_of, described, find_networks, random_inputs
from circlet.formats import dumps
from circlet.ir import DType, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.shape import ReshapeAttrs
from tests.bench.files import small_file

SCALE = Quantization(np.array([0.1], np.float32), np.array([0], np.int64), 0)


def onnx_array(array: np.ndarray, name: str) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(array, name)


def dense(data: DType, weights: np.ndarray, *, dequantised: bool = False) -> Model:
    b = builder()
    quant = SCALE if data is not DType.FLOAT32 else None
    x = b.input("x", data, (1, 32), quant)
    w = b.constant("w", weights, SCALE if weights.dtype == np.int8 else None)
    if dequantised:
        w = b.op("DEQUANTIZE", [w], dtype=DType.FLOAT32)
    y = b.op("FULLY_CONNECTED", [x, w, None], FullyConnectedAttrs(), quant=quant)
    return b.output(y).model()


FLOATS, BYTES = np.ones((8, 32), np.float32), np.ones((8, 32), np.int8)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (dense(DType.FLOAT32, FLOATS), "fp32"),
        (dense(DType.INT8, BYTES), "integer"),
        (dense(DType.INT16, BYTES), "integer"),
        (dense(DType.FLOAT32, BYTES), "hybrid"),
        (dense(DType.FLOAT32, BYTES, dequantised=True), "fp32"),
        (dense(DType.FLOAT32, FLOATS.astype(np.float16), dequantised=True), "fp32"),
    ],
    ids=["float", "int8", "int16x8", "hybrid", "weight-only", "float16"],
)
def test_the_class_is_that_of_the_arithmetic(model: Model, kind: str) -> None:
    assert class_of(model) == kind


def test_products_between_quantisations_are_those_of_integers(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx", reason="pip install 'circlet[onnx]'").helper
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"]),
        helper.make_node("MatMul", ["d", "v"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((32, 8), np.int8)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, (4, 32))],
        [helper.make_tensor_value_info("y", 1, (4, 8))],
        [onnx_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    network = described(path)
    assert (network.kind, network.macs) == ("integer", 4 * 32 * 8)


def test_a_network_without_weights_goes_by_its_tensors() -> None:
    for dtype, quant, kind in ((DType.FLOAT32, None, "fp32"), (DType.INT8, SCALE, "integer")):
        b = builder()
        x = b.input("x", dtype, (4,), quant)
        assert class_of(b.output(b.op("RELU", [x], quant=quant)).model()) == kind


def test_the_name_of_a_file_says_nothing(tmp_path: Path) -> None:
    path = small_file(tmp_path, "fp32").rename(tmp_path / "really_int8_quant.tflite")
    network = described(path)
    assert network.kind == "fp32" and network.bytes == path.stat().st_size
    assert network.macs > 8 * 8 * 64 * 27


def test_folders_and_files_may_be_given(tmp_path: Path) -> None:
    inside = small_file(tmp_path)
    (tmp_path / "notes.txt").write_text("none")
    assert find_networks([tmp_path, inside]) == [inside, inside]


def test_inputs_are_the_same_every_time_and_may_have_other_sizes(tmp_path: Path) -> None:
    path = small_file(tmp_path, "int8")
    first, second = random_inputs(path), random_inputs(path)
    assert first["x"].dtype == np.int8 and np.array_equal(first["x"], second["x"])
    assert random_inputs(path, {"x": (2, 24, 24, 3)})["x"].shape == (2, 24, 24, 3)


def test_inputs_of_text_have_a_reason(tmp_path: Path) -> None:
    b = builder()
    x = b.input("words", DType.STRING, (1,))
    path = tmp_path / "text.tflite"
    path.write_bytes(dumps(b.output(b.op("RESHAPE", [x], ReshapeAttrs((1,)))).model(), "tflite"))
    with pytest.raises(ValueError, match="words is of type STRING"):
        random_inputs(path)
