"""Networks as ONNX Runtime's optimiser writes them run as the ones that they were made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.corpora import corpus
from tests.formats.microsoft import theirs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mnist-8", {"FusedConv"}),
        ("keypoint_classifier", {"FusedGemm"}),
        pytest.param(
            "cct_2_32_32_128",
            {"FusedConv", "FusedMatMul", "SkipLayerNormalization"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_optimised_network_gives_what_it_gave(
    name: str, kinds: set[str], tmp_path: Path
) -> None:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    file = corpus(f"models/{name}.onnx")
    peer = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    made = (tmp_path / "made.onnx").read_bytes()
    graph = onnx.ModelProto.FromString(made).graph
    assert {node.op_type for node in graph.node if node.domain == "com.microsoft"} == kinds
    random = np.random.default_rng(3)
    feeds = {
        value.name: random.normal(
            size=[size if isinstance(size, int) else 1 for size in value.shape]
        ).astype(np.float32)
        for value in peer.get_inputs()
    }
    session = circlet.Session(made, backends=["reference"], cache=False)
    found = session.run(feeds).values()
    for x, y in zip(found, theirs(file.read_bytes(), feeds), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * float(np.abs(y).max()))
