"""Reading .tflite files into the IR."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError, FileError, FormatError, GraphError, LimitError
from circlet.formats import dumps, load
from circlet.ir import DType, Tensor
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.geometry import SAME_UPPER
from tests import corpora

# What LiteRT refuses as well: another schema version, no graph, an input that is written.
REFUSED = {
    "LiteRT__tflite_converter_quantization_lite_testdata_transpose.tflite": FormatError,
    "LiteRT__tflite_testdata_0_subgraphs.tflite": GraphError,
    "LiteRT__tflite_testdata_add_shared_tensors.tflite": GraphError,
    "LiteRT__tflite_testdata_segment_sum_invalid_buffer.tflite": FormatError,
}


@corpora.each_model()
def test_every_model_of_the_corpus_loads(name: str) -> None:
    model = load(corpora.corpus(f"models/{name}"))
    entry = corpora.index()["models"][name]
    assert len(model.graphs) == entry["subgraphs"]
    assert sum(len(graph.ops) for graph in model.graphs) == entry["num_ops"]


def test_every_small_network_of_the_corpus_loads() -> None:
    corpora.corpus("singleop")
    failed = {}
    for name in corpora.single_ops():
        try:
            load(corpora.corpus(f"singleop/models/{name}"))
        except (FormatError, GraphError) as error:
            failed[name] = type(error)
    assert failed == REFUSED


@pytest.mark.smoke
def test_constants_are_read_only_views_into_the_file() -> None:
    data = corpora.corpus("models/kws_dscnn_int8.tflite").read_bytes()
    file = np.frombuffer(data, np.uint8)
    constants = list(load(data).main.constants())
    assert constants
    for tensor in constants:
        assert tensor.data is not None
        assert np.shares_memory(tensor.data, file)
        assert not tensor.data.flags.writeable


def test_constants_that_the_file_does_not_align_are_copied() -> None:
    path = corpora.corpus("singleop/models/tflite-micro__transpose_conv_transpose_conv0.tflite")
    for tensor in load(path).main.constants():
        assert tensor.data is not None
        assert tensor.data.flags.aligned
        assert not tensor.data.flags.writeable


def test_attributes_and_quantisation_of_a_convolution_are_read() -> None:
    graph = load(corpora.corpus("models/mobilenet_v2_1.0_224_quant.tflite")).main
    conv = graph.ops[0]
    assert conv.kind == "CONV_2D"
    attrs = conv.attributes(Conv2DAttrs)
    assert (attrs.padding, attrs.strides) == (SAME_UPPER, (2, 2))
    weights = conv.input(1)
    assert weights is not None
    assert weights.dtype is DType.UINT8
    assert weights.shape == (32, 3, 3, 3)
    assert weights.quant is not None
    assert weights.quant.scale.size == weights.quant.zero_point.size == 1


def test_unknown_sizes_come_from_the_shape_signature() -> None:
    model = load(corpora.corpus("models/conv_fc_mnist.tflite"))
    first = model.main.inputs[0]
    assert first.shape[0] is None
    assert first.static_shape == (1, 28, 28, 1)


def test_origins_number_the_operators_of_all_graphs() -> None:
    model = load(corpora.corpus("models/while_dynamic.tflite"))
    ops = [op for graph in model.graphs for op in graph.ops]
    assert len(model.graphs) == 3
    assert [op.origin.sources[0].id for op in ops] == list(range(len(ops)))
    assert all(op.name for op in ops)


def test_operators_stored_in_reverse_are_put_in_order() -> None:
    model = load(corpora.corpus("malformed/sem_ops_reversed.tflite"))
    ready = set(model.main.inputs)
    for op in model.main.ops:
        assert all(t is None or t.is_constant or t in ready for t in op.inputs)
        ready |= set(op.outputs)


def test_block_quantisation_and_packed_weights_are_kept() -> None:
    model = load(corpora.corpus("models/qwen_fc_blockwise_int4.tflite"))
    packed = [t for t in model.main.tensors if t.dtype is DType.INT4]
    assert packed
    assert packed[0].data is not None
    assert packed[0].data.nbytes == packed[0].size_bytes
    assert packed[0].quant is not None
    assert packed[0].quant.details is not None
    assert packed[0].quant.details.table == "BlockwiseQuantization"


def test_bytes_and_path_give_the_same_model() -> None:
    path = corpora.corpus("models/hello_world_int8.tflite")
    assert dumps(load(path)) == dumps(load(path.read_bytes()))
    assert load(path).source_path == str(path)


def test_a_missing_file_a_directory_and_a_pipe_are_file_errors(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path / "absent.tflite", tmp_path, pipe):
        with pytest.raises(FileError, match=path.name):
            load(path)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest of an archive", "zip"),
        (b"\n <!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
        (b"\x1f\x8b\x08 compressed", "compressed"),
        (b"\x08\x07\x12\x07pytorch", "onnx"),
        (b"\x89HDF\r\n\x1a\n", "h5"),
        (b"CIRCLETA and what it holds", "artifact"),
        (b"\x80\x02}q\x00X", "pickle"),
        (b"GGUF\x03\0\0\0", "gguf"),
        (b'\x40\0\0\0\0\0\0\0{"weight"', "safetensors"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a picture, which --input takes"),
        (b"RIFF\x24\x08\0\0WAVE", "a sound, which --input takes"),
        (b"something else entirely", "TFL3"),
    ],
)
def test_contents_that_are_no_model_are_named(head: bytes, word: str) -> None:
    with pytest.raises(FormatError, match=word):
        load(head)


def test_limits_can_be_set_by_the_caller() -> None:
    path = corpora.corpus("models/kws_dscnn_int8.tflite")
    for limits in (Limits(file_bytes=1000), Limits(ops=3), Limits(tables=20), Limits(rank=2)):
        with pytest.raises(LimitError):
            load(path, limits)


def test_reading_files_imports_nothing_heavy() -> None:
    script = (
        "import sys, numpy; before = set(sys.modules); import circlet.formats;"
        "print(*{m.split('.')[0] for m in set(sys.modules) - before if not m.startswith('_')})"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split()) - set(sys.stdlib_module_names)
    assert loaded <= {"circlet", "numpy"}


def test_what_an_operator_writes_is_no_variable() -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (2,))], name="y"))
    b.graph.outputs[0].is_variable = True
    assert not load(dumps(b.model(), "tflite")).main.outputs[0].is_variable


def test_what_is_converted_once_may_be_the_start_of_a_variable() -> None:
    b = builder()
    half = b.constant("half", np.ones(2, np.float16))
    b.output(b.op("DEQUANTIZE", [half], name="y", dtype=DType.FLOAT32, shape=(2,)))
    b.graph.outputs[0].is_variable = True
    assert load(dumps(b.model(), "tflite")).main.outputs[0].is_variable


@pytest.mark.parametrize("error", [FormatError, GraphError])
def test_a_file_that_is_wrong_always_comes_with_advice(error: type[CircletError]) -> None:
    assert "again" in error("it is wrong").fix
    assert error("it is wrong", fix="do this").fix == "do this"


def test_axes_of_a_batch_that_suppression_lacks_are_forgotten() -> None:
    b = builder()
    boxes, scores = b.input("boxes", DType.FLOAT32, (9, 4)), b.input("scores", DType.FLOAT32, (9,))
    numbers = (np.int32(5), np.float32(0.5), np.float32(0.1))
    constants = [b.constant(f"number {place}", number) for place, number in enumerate(numbers)]
    made = [Tensor("kept", DType.INT32, (1, 5)), Tensor("count", DType.INT32, (1,))]
    b.op_many("NON_MAX_SUPPRESSION_V4", [boxes, scores, *constants], made)
    read = load(dumps(b.output(*made).model(), "tflite")).main
    assert [tensor.shape for tensor in read.outputs] == [(5,), ()]
