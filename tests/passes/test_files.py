"""Networks after the levels for files, saved, give LiteRT the same answers as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load, save
from circlet.ir import Model
from circlet.ops.verify import violations
from circlet.passes import file_pipeline, make
from tests.corpora import ROOT, corpus, each, models
from tests.passes.test_sparsify import layer
from tests.peer import PeerRefusedError, run_peer

QUICK = (
    "conv_fc_mnist_a8w8.tflite",
    "dilated_conv.tflite",
    "face_detection_short_range.tflite",
    "gemma_style_ff.tflite",
    "kws_dscnn_int8.tflite",
    "mnist_lstm_int8.tflite",
    "norm.tflite",
    "rope.tflite",
    "ssd_mobilenet_v1_postprocess_head.tflite",
    "while_dynamic.tflite",
)
TOLERANCES = {"O1": 1e-6, "O2": 1e-4}


def answers(path: Path, isolated: bool) -> list[np.ndarray]:
    """The outputs of a file in LiteRT."""
    graph = load(path).main
    try:
        values = run_peer(path, graph, isolated=isolated)
    except PeerRefusedError as error:
        pytest.skip(f"LiteRT refuses the network: {str(error)[:80]}")
    return [values[tensor] for tensor in graph.outputs if tensor in values]


def sources(model: Model) -> set[str]:
    """Names of the operators of the file that some operator descends from."""
    ops = (op for graph in model.graphs for op in graph.ops)
    return {source.name for op in ops for source in op.origin.sources}


def is_sound(model: Model) -> bool:
    return next(violations(model), None) is None


@pytest.mark.parametrize("level", ["O1", "O2"])
@each("name", models(), QUICK, pytest.mark.release)
def test_a_file_gives_the_same_answers(name: str, level: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    source, isolated = corpus(f"models/{name}"), name not in QUICK
    (tmp_path / "models").mkdir()
    (tmp_path / "golden").symlink_to(ROOT / "golden")
    target = tmp_path / "models" / name
    wanted = answers(source, isolated)
    model = load(source)
    known, ops = sources(model), sum(len(graph.ops) for graph in model.graphs)
    file_pipeline(level, "tflite", check=is_sound(model)).run(model)
    assert sources(model) <= known
    assert sum(len(graph.ops) for graph in model.graphs) <= ops
    save(model, target, origins=False)
    assert target.stat().st_size <= source.stat().st_size * 1.01 + 1024
    for got, want in zip(answers(target, isolated), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        largest = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCES[level] * largest)


def test_litert_runs_an_lstm_step_by_step(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    model, target = load(corpus("models/mnist_lstm_float.tflite")), tmp_path / "lstm.tflite"
    save(model, tmp_path / "plain.tflite")
    assert make("unroll-lstm").run(model.main)
    save(model, target)
    (wanted,), (got,) = (answers(path, False) for path in (tmp_path / "plain.tflite", target))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("block", [1, 4])
def test_litert_runs_sparse_weights(block: int, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    model = Model([layer(np.float32, 0.2)])
    save(model, tmp_path / "dense.tflite")
    assert make("sparsify", block=block).run(model.main)
    save(model, tmp_path / "sparse.tflite")
    wanted, got = (answers(tmp_path / f"{name}.tflite", False) for name in ("dense", "sparse"))
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)


@each("name", models(), QUICK, pytest.mark.release)
def test_levels_reach_an_end(name: str) -> None:
    try:
        model = load(corpus(f"models/{name}"))
    except CircletError as error:
        pytest.skip(f"the network is refused: {error.code}")
    file_pipeline("O2", "circle").run(model)
    log = file_pipeline("O2", "circle").run(model)
    assert [report.name for report in log.reports if report.did_something] == []
