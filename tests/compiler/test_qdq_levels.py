"""Networks between QuantizeLinear and DequantizeLinear: one answer, at all levels and as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from circlet.compiler.optimize import optimize
from circlet.runtime.session import Session
from tests.corpora import each

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from tests import qdq_networks  # noqa: E402

_RUNS = 3
_FORMS = {"ui": False, "ii": True, "uu": False}  # types, and whether channels have scales
_CASES = [f"{name} {types}" for name in ("images", "flattened", "words") for types in _FORMS]
Run = Callable[[np.ndarray], np.ndarray]


def network(case: str, folder: Path) -> tuple[Path, list[np.ndarray]]:
    """A quantised network, written into a folder, and some inputs of it."""
    name, types = case.split()
    source, path = folder / "float.onnx", folder / "quantised.onnx"
    net = getattr(qdq_networks, name)(source)
    qdq_networks.quantised(net, source, path, types, per_channel=_FORMS[types])
    return path, [net.inputs(100 + seed) for seed in range(_RUNS)]


def ours(path: Path, level: str) -> Run:
    session = Session(path, level=level)
    return lambda x: next(iter(session.run([x]).values()))


def theirs(path: Path) -> tuple[Run, Counter[str]]:
    """ONNX Runtime, and the kinds of the graph that it runs."""
    options, saved = runtime.SessionOptions(), path.with_suffix(".ort.onnx")
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.optimized_model_filepath = str(saved)
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    kinds = Counter(node.op_type for node in onnx.load(saved).graph.node)
    return lambda x: np.asarray(session.run(None, {"x": x})[0]), kinds


@each("case", _CASES, {"images ui", "flattened ii"}, pytest.mark.slow)
def test_levels_agree_bit_for_bit(case: str, tmp_path: Path) -> None:
    path, inputs = network(case, tmp_path)
    runs = [ours(path, level) for level in ("O0", "O1", "O2")]
    for x in inputs:
        wanted, *others = (run(x) for run in runs)
        assert np.ptp(wanted) > 1
        for result in others:
            np.testing.assert_array_equal(result, wanted)


@each("case", _CASES, {"images ii", "flattened ii"}, pytest.mark.slow)
def test_optimised_files_answer_as_before_in_both_engines(case: str, tmp_path: Path) -> None:
    path, inputs = network(case, tmp_path)
    written = tmp_path / "optimised.onnx"
    optimize(path, "O2", format="onnx").save(written)
    (before, kinds), (after, kinds_after) = theirs(path), theirs(written)
    for x in inputs:
        np.testing.assert_array_equal(ours(written, "O2")(x), ours(path, "O0")(x))
        np.testing.assert_array_equal(after(x), before(x))
    assert_products_stay_whole(kinds, kinds_after)


def assert_products_stay_whole(before: Counter[str], after: Counter[str]) -> None:
    """ONNX Runtime makes as many integer kernels of a file, and as few conversions."""
    integer = ("QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat")
    assert sum(after[kind] for kind in integer) == sum(before[kind] for kind in integer) > 0
    for kind in ("QLinearAdd", "QLinearGlobalAveragePool", "QLinearSigmoid", "QLinearConcat"):
        assert after[kind] == before[kind]
    for kind in ("QuantizeLinear", "DequantizeLinear", "Transpose"):
        assert after[kind] <= before[kind]
