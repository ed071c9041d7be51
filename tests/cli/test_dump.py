"""`circlet dump` against the layout of ONE's tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.formats import dumps, load
from circlet.ir import DType, Quantization
from circlet.ops.build import builder
from circlet.ops.text import parse
from tests import corpora
from tests.cli.call import as_json, circlet
from tests.windows import conv2d_attrs

EXPECTED = """\
Dump: {path}

===================================================================
Model version: 3
 # sub graphs: 1

Operator Codes: [order] OpCodeName (OpCode Enum)
[0] CONV_2D (code: 3, version: 1)
[1] RELU (code: 19, version: 1)

Buffers: B(index) (length) values, if any
B(0) (0)\x20
B(1) (6) 0x1 00 0xff 0x10 0x80 0x7f ...
B(2) (2) 0x41 0x42

metadata : B(index) name
B(2) note

SignatureDef
S(0) key(serve), sub_graph(0)
    I(0) T(0:0) ifm
    O(0) T(0:3) ofm

-------------------------------------------------------------------
Sub-Graph: #0 main

{operands}
T(0:0) INT8 (1, 4, 4, 2) (-1, 4, 4, 2) B(0) ifm
    Quantization: scale(0.5) zeropt(3) quantized_dimension(0)
T(0:1) INT8 (3, 1, 1, 2) B(1) weights
    Quantization: scale(0.5, 0.25, 0.125) zeropt(0, 0, 0) quantized_dimension(0)
T(0:2) INT8 (1, 2, 2, 3) (-1, 2, 2, 3) B(0) mid
T(0:3) INT8 (1, 2, 2, 3) (-1, 2, 2, 3) B(0) ofm

Operators: O(subgraph index : operator index) OpCodeName
    Option(values) ... <-- depending on OpCode
    I T(tensor index) OperandName <-- as input
    O T(tensor index) OperandName <-- as output
O(0:0) CONV_2D\x20
    Padding(1) Stride.W(2) Stride.H(2) Dilation.W(1) Dilation.H(1) Activation(RELU)
    I T(0:0) ifm
    I T(0:1) weights
    I T(0:-1)\x20
    O T(0:2) mid
O(0:1) RELU\x20
    I T(0:2) mid
    O T(0:3) ofm

Inputs/Outputs: I(input)/O(output) T(tensor index) OperandName
I T(0:0) ifm
O T(0:3) ofm

===================================================================
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    b = builder()
    x = b.input("ifm", DType.INT8, (None, 4, 4, 2), Quantization.per_tensor(0.5, 3))
    scales = Quantization.per_channel([0.5, 0.25, 0.125], 0)
    data = np.array([1, 0, -1, 16, -128, 127], np.int8).reshape(3, 1, 1, 2)
    attrs = conv2d_attrs("VALID", 2, 2, "RELU")
    y = b.op("CONV_2D", [x, b.constant("weights", data, scales), None], attrs, name="mid")
    b.output(b.op("RELU", [y], name="ofm"))
    for tensor in b.graph.tensors:
        tensor.default_shape = tensor.static_shape
    path = tmp_path / "model.tflite"
    path.write_bytes(dumps(b.model("serve", {"note": b"AB"}), "tflite"))
    return path


def test_the_layout_is_that_of_tfldump(model: Path) -> None:
    operands = (
        "Operands: T(subgraph index : tensor index) TYPE (shape) (shape_signature) "
        "B(buffer index) OperandName"
    )
    assert circlet("dump", model).stdout == EXPECTED.format(path=model, operands=operands)


def test_json_holds_the_same_tables(model: Path) -> None:
    data = as_json("dump", model)
    assert data["buffers"] == [{"length": 0}, {"length": 6}, {"length": 2}]
    (graph,) = data["subgraphs"]
    assert [tensor["name"] for tensor in graph["tensors"]] == ["ifm", "weights", "mid", "ofm"]
    assert graph["operators"][0]["builtin_options"]["stride_w"] == 2


def test_the_text_form_reads_back(model: Path) -> None:
    text = circlet("dump", model, "--text", "--data").stdout
    assert dumps(parse(text), "tflite") == dumps(load(model), "tflite")
    assert as_json("dump", model, "--text", "--data")["text"] == text


def test_circle_files_name_their_data_format(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.circle"
    assert circlet("convert", model, target).exit_code == 0
    assert "Sub-Graph: #0 main Data Format: CHANNELS_LAST" in circlet("dump", target).stdout


def test_options_of_custom_operators_are_read() -> None:
    path = corpora.corpus("models/custom_op_FillFrom.tflite")
    lines = circlet("dump", path).stdout.splitlines()
    assert "[0] FillFrom (code: 32, version: 1)" in lines
    assert any(line.startswith("    idx(3) val(1.1") for line in lines)


def test_a_damaged_file_ends_in_a_code(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    path.write_bytes(b"\xff" * 64)
    assert as_json("dump", path, code=1)["error"]["code"] == "E-FORMAT"


@corpora.each("name", corpora.models()[::6])
def test_networks_of_the_corpus_are_dumped(name: str) -> None:
    path = corpora.corpus(f"models/{name}")
    graph = load(path).main
    lines = circlet("dump", path).stdout.splitlines()
    assert sum(line.startswith("O(0:") for line in lines) == len(graph.ops)
    assert sum(line.startswith("T(0:") for line in lines) == len(graph.tensors)
