"""Public networks written as .onnx, beside their source and in ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from circlet.commands.storing import make_storable
from circlet.errors import CircletError
from circlet.formats import dumps, load
from tests import corpora, onnx_written

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytestmark = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed"
)

QUICK = (
    "hello_world_float.tflite",
    "hello_world_int8.tflite",
    "kws_dscnn_int8.tflite",
    "micro_speech_quantized.tflite",
    "mobilenet_v1_0.25_224_float.tflite",
    "rope.tflite",
    "while_dynamic.tflite",
)
# Whole numbers of a scale so small that what they are given is 2^31 steps, which ONNX Runtime
# does not take to the nearest that can be stored.
OUT_OF_RANGE = {"LiteRT__test_testdata_matmul_quant.tflite"}
# Its input is a list of sizes, and the corpus has none that fit.
UNKNOWN_INPUT = {"ONE_recipe__Net_ZeroDim_001.tflite"}
ONNX_QUICK = ("keypoint_classifier.onnx", "mnist-8.onnx", "yunet_n_320.onnx")


@corpora.each("name", corpora.models(), QUICK, pytest.mark.release)
def test_a_network_is_right_or_refused_with_its_operators(name: str) -> None:
    outcome = onnx_written.judged(corpora.corpus(f"models/{name}"))
    assert outcome.verdict in (onnx_written.RIGHT, onnx_written.REFUSED), outcome
    assert outcome.verdict == onnx_written.RIGHT or name not in QUICK
    assert outcome.verdict == onnx_written.RIGHT or "(" in outcome.why


@corpora.each("name", corpora.single_ops(), (), pytest.mark.release)
def test_an_operator_is_right_or_refused(name: str) -> None:
    if name in UNKNOWN_INPUT:
        pytest.skip("the corpus has no sizes that fit its input")
    outcome = onnx_written.judged(corpora.corpus(f"singleop/models/{name}"))
    if name in OUT_OF_RANGE:
        assert outcome.verdict == "differs"
        return
    answered = (onnx_written.RIGHT, onnx_written.REFUSED)
    broken = (onnx_written.UNREAD, onnx_written.NO_REFERENCE)
    assert outcome.verdict in (*answered, *broken), outcome


def onnx_files() -> list[str]:
    return sorted(path.name for path in (corpora.ROOT / "models").glob("*.onnx"))


@corpora.each("name", onnx_files(), ONNX_QUICK, pytest.mark.release)
def test_onnx_files_go_back_to_what_computes_the_same(name: str) -> None:
    path = corpora.corpus(f"models/{name}")
    try:
        model = load(path)
        make_storable(model, "onnx")
        data = dumps(model, "onnx")
    except CircletError as error:
        assert name not in ONNX_QUICK, error
        return
    source, again = onnx_written.session(path.read_bytes()), onnx_written.session(data)
    given = onnx_written.inputs(path, source.get_inputs())
    for got, wanted in zip(again.run(None, given), source.run(None, given), strict=True):
        assert got.dtype == wanted.dtype
        atol = 2 if got.dtype.kind in "iu" and got.dtype.itemsize == 1 else 1e-4
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=atol)


@pytest.mark.parametrize("name", ["mobilenet_v1_0.25_224_float", "mobilenet_v1_0.25_128_quant"])
def test_whole_networks_are_transposed_once(name: str) -> None:
    import onnx

    data = dumps(load(Path(corpora.corpus(f"models/{name}.tflite"))), "onnx")
    kinds = Counter(node.op_type for node in onnx.load_from_string(data).graph.node)
    assert kinds["Transpose"] == 1
    assert kinds["Conv"] == 28
