"""Origins from the user's file through passes, files and passes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet import Session
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import FormatError, InputError, UnsupportedOpsError
from circlet.formats import dumps, dumps_whole, load, load_whole
from circlet.formats.origin_json import (
    origins_of,
    read_origins_json,
    set_origins,
    write_origins_json,
)
from circlet.ir import DType, Model, Op, Origin
from circlet.ops.build import builder
from circlet.options import Options, Shapes
from circlet.passes import pipeline
from tests import corpora
from tests.cli.call import as_json
from tests.passes.networks import F32, conv, image

QUICK = (
    *corpora.REPRESENTATIVE,
    "mnist-8.onnx",
    "keypoint_classifier.onnx",
    "cct_2_32_32_128.onnx",
)

# Files with operators that Circlet does not know, and inputs that 1 does not do for.
UNREAD = frozenset({"deeploy_resnet8_requantshift.onnx", "super_resolution_ort_extensions.onnx"})
SHAPES = {
    "silero_vad_16k_op15.onnx": (("input", (1, 512)), ("state", (2, 1, 128))),
    "yunet_s_dynamic.onnx": (("input", (1, 3, 160, 160)),),
}


def files() -> list[str]:
    found = (corpora.ROOT / "models").glob("*")
    return sorted(path.name for path in found if path.suffix in (".tflite", ".circle", ".onnx"))


def optimised(model: Model, shapes: Shapes = ()) -> Model:
    """The network that would be compiled; where it cannot be run, that of the passes alone."""
    options = Options(backends=("reference",), shapes=shapes)
    try:
        return plan(Template.read(model, options), options).model
    except UnsupportedOpsError:
        pipeline("O2").run(model)
        return model


def operators(model: Model) -> list[Op]:
    return [op for graph in model.graphs for op in graph.ops]


def sources(model: Model) -> set[str]:
    return {source.name for op in operators(model) for source in op.origin.sources}


def conv_relu() -> Model:
    b = builder()
    return b.output(b.op("RELU", [conv(b, image(b, F32))], name="relu")).model()


@corpora.each("name", files(), QUICK, pytest.mark.release)
def test_every_operator_keeps_its_origin_through_two_optimisations(name: str) -> None:
    if name.endswith(".onnx"):
        pytest.importorskip("onnx", reason="it reads .onnx files")
    path = corpora.corpus(f"models/{name}")
    if name in UNREAD:
        with pytest.raises(UnsupportedOpsError):
            load(path)
        return
    model = load(path)
    known = sources(model) | {tensor.name for tensor in model.main.outputs}
    once = optimised(model, SHAPES.get(name, ()))
    again = load_whole(dumps_whole(once))
    assert [op.origin for op in operators(again)] == [op.origin for op in operators(once)]
    assert sources(again) <= known
    twice = optimised(again)
    assert operators(twice) or not operators(once)
    assert sources(twice) <= known
    stored = load_whole(dumps_whole(twice))
    assert [op.name for op in operators(stored)] == [op.name for op in operators(twice)]


def test_names_of_onnx_nodes_reach_a_tflite_file(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it reads .onnx files")
    circle, target = tmp_path / "x.circle", tmp_path / "x.tflite"
    source = corpora.corpus("models/mnist-8.onnx")
    as_json("convert", source, circle)
    as_json("convert", circle, target)
    names = [op.name for op in load(source).main.ops]
    assert "Convolution28" in names
    assert [op.name for op in load(target).main.ops] == names
    picture = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    first, last = (
        Session(path, backends=["reference"]).run([picture]) for path in (source, target)
    )
    for before, after in zip(first.values(), last.values(), strict=True):
        assert np.array_equal(before, after)


def test_origins_go_to_json_and_back(tmp_path: Path) -> None:
    model = conv_relu()
    pipeline("O2").run(model)
    path = tmp_path / "origins.json"
    write_origins_json(model, path)
    said = read_origins_json(path)
    assert said == origins_of(model)
    (name,) = said
    assert len(said[name]) > 1
    bare = load(dumps(model, "tflite", origins=False))
    assert [op.name for op in bare.main.ops] == [name]
    set_origins(bare, said)
    assert bare.main.ops[0].name == "+".join(said[name])
    assert origins_of(load(dumps(bare, "tflite"))) == said


def test_names_that_several_have_are_told_apart() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2,))
    y = b.op("TANH", [x], name="same", origin=Origin.of(0, "layer"))
    z = b.op("TANH", [y], name="same", origin=Origin.of(1, "layer"))
    assert origins_of(b.output(z).model()) == {"same#0": ["layer#0"], "same#1": ["layer#1"]}


@pytest.mark.parametrize("text", ["", "[1]", '{"y": "x"}', '{"y": []}', '{"y": [1]}', "[" * 10**5])
def test_a_file_that_says_no_origins_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "origins.json"
    path.write_text(text)
    with pytest.raises(FormatError, match="no file of origins"):
        read_origins_json(path)


def test_origins_of_another_network_are_refused() -> None:
    with pytest.raises(InputError, match="nobody"):
        set_origins(conv_relu(), {"nobody": ["x"]})
