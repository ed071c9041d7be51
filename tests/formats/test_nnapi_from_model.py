"""Networks of files as calls of the Android Neural Networks API: the same answers by both doors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import FormatError
from circlet.formats import dumps, load, save
from circlet.formats.nnapi.from_model import describe
from circlet.formats.nnapi.lower import lower
from circlet.formats.nnapi.operation_codes import OPERATION_CODES
from circlet.formats.nnapi.read import description_of
from circlet.formats.nnapi.write import json_of
from circlet.formats.nnapi.writing import WRITERS
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.runtime.session import Session
from tests.cli.call import circlet
from tests.corpora import corpus, each, models

QUICK = (
    "conv_fc_mnist_a8w8.tflite",
    "hello_world_float.tflite",
    "hello_world_int8.tflite",
    "kws_dscnn_int8.tflite",
    "micro_speech_quantized.tflite",
    "norm.tflite",
    "planestrike_tf.tflite",
    "rope.tflite",
)
# What TFLite's own delegate leaves to other kernels too, or what demands types of 64 bits, strings,
# states, scalars that are computed, or weights of other types than the values they meet.
REFUSED = "no operations say what some of its operators do"


def answers(session: Session, seed: int = 3) -> list[np.ndarray]:
    """Answers to random inputs."""
    rng = np.random.default_rng(seed)
    inputs = []
    for value in session.inputs:
        dtype = np.dtype(value.dtype)
        if dtype.kind == "f":
            inputs.append(rng.standard_normal(value.shape).astype(dtype))
        else:
            low, high = (-100, 100) if dtype == np.int8 else (0, 2 if dtype.itemsize > 1 else 200)
            inputs.append(rng.integers(low, high, value.shape).astype(dtype))
    return list(session.run(inputs).values())


@each("name", models(), QUICK, pytest.mark.release)
def test_both_doors_give_the_same_answers(name: str) -> None:
    path = corpus("models") / name
    try:
        description = describe(load(path))
    except FormatError as error:
        pytest.skip(f"{REFUSED}: {error.reasons[0]}")
    direct, through = Session(str(path)), Session(lower(description))
    for wanted, found in zip(answers(direct), answers(through), strict=True):
        np.testing.assert_array_equal(found, wanted)


@each("name", models(), QUICK, pytest.mark.release)
def test_the_json_says_all_of_a_description(name: str) -> None:
    try:
        description = describe(load(corpus("models") / name))
    except FormatError as error:
        pytest.skip(f"{REFUSED}: {error.reasons[0]}")
    found = description_of(json.loads(json.dumps(json_of(description))))
    assert found.operations == description.operations
    assert (found.inputs, found.outputs) == (description.inputs, description.outputs)
    for ours, read in zip(description.operands, found.operands, strict=True):
        assert (ours.code, ours.dims, ours.scale) == (read.code, read.dims, read.scale)
        assert (ours.channel_scales, ours.zero_point) == (read.channel_scales, read.zero_point)
        if ours.value is not None:
            assert read.value is not None
            np.testing.assert_array_equal(read.value, ours.value)


def test_operations_are_those_of_the_table() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4, 4, 2))
    y = b.op("MEAN", [b.op("RELU", [x]), b.constant("axes", np.array([1, 2], np.int32))], name="y")
    description = describe(b.output(y).model())
    assert [each.kind for each in description.operations] == ["RELU", "MEAN"]
    assert all(each.kind in OPERATION_CODES for each in description.operations)
    assert len(WRITERS.kinds()) > 80


def test_what_cannot_be_said_is_named_with_its_reason() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (4,))
    y = b.op("ELU", [b.op("CUMSUM", [x, b.constant("axis", np.int32(0))], name="sums")], name="y")
    with pytest.raises(FormatError) as caught:
        describe(b.output(y).model())
    assert len(caught.value.reasons) == 2
    assert "sums (CUMSUM): no operation does this" in caught.value.why
    assert "came after NNAPI 1.2" in caught.value.why


def test_convert_writes_and_run_reads_json(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4))
    y = b.op("ADD", [x, b.constant("w", np.arange(1, 5, dtype=np.float32))], name="y")
    source, target = tmp_path / "model.tflite", tmp_path / "model.json"
    save(b.output(y).model(), source)
    assert "model.json: nnapi" in circlet("convert", source, target).stdout
    (found,) = Session(str(target)).run([np.zeros((1, 4), np.float32)]).values()
    np.testing.assert_array_equal(found, [[1, 2, 3, 4]])
    again = json.loads(dumps(load(target), "nnapi"))
    assert again["operations"] == json.loads(target.read_text())["operations"]
