"""Where the public test data lie; a test that needs an absent file skips with the reason."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2] / "shared" / "corpora"

# A small network for each kind of file; quick tests read these, slow ones all of the corpus.
REPRESENTATIVE = (
    "conv_fc_mnist_a8w8.tflite",
    "custom_op_FillFrom.tflite",
    "dilated_conv.tflite",
    "hello_world_float.tflite",
    "hello_world_int8.tflite",
    "if_dynamic.tflite",
    "kws_dscnn_hybrid.tflite",
    "kws_dscnn_int8.tflite",
    "micro_speech_quantized.tflite",
    "microwakeword_v2_vad.tflite",
    "mnist_lstm_int8.tflite",
    "nl_classifier_string_ops.tflite",
    "norm.tflite",
    "planestrike_tf.tflite",
    "rope.tflite",
    "ssd_mobilenet_v1_postprocess_head.tflite",
    "static_w8_a16_q_einsum.tflite",
    "while_dynamic.tflite",
)


def corpus(path: str) -> Path:
    """A file or folder of the corpora; skips the test where it is absent."""
    found = ROOT / path
    if not found.exists():
        pytest.skip(f"no corpus at {found if ROOT.exists() else ROOT}")
    return found


def each(
    argument: str,
    files: Iterable[str],
    quick: Collection[str] | None = None,
    others: pytest.MarkDecorator = pytest.mark.slow,
) -> pytest.MarkDecorator:
    """`parametrize` over files of the corpora; `others` marks those that `quick` does not name.

    Where there are none, one test skips and says where they were looked for.
    """
    absent = pytest.param(
        None, id="no-corpus", marks=pytest.mark.skip(reason=f"no corpus at {ROOT}")
    )
    found = [
        pytest.param(file, marks=[] if quick is None or Path(file).name in quick else others)
        for file in files
    ]
    return pytest.mark.parametrize(argument, found or [absent])


def models() -> list[str]:
    """File names of the real .tflite models; empty without the corpora."""
    return sorted(path.name for path in (ROOT / "models").glob("*.tflite"))


def each_model(
    argument: str = "name", others: pytest.MarkDecorator = pytest.mark.slow
) -> pytest.MarkDecorator:
    """`parametrize` over the real models; `others` marks all but the representative ones."""
    return each(argument, models(), REPRESENTATIVE, others)


def single_ops() -> list[str]:
    """File names of the small .tflite files of one or a few operators."""
    return sorted(path.name for path in (ROOT / "singleop" / "models").glob("*.tflite"))


def index(path: str = "index.json") -> dict[str, Any]:
    """One of the corpora's indexes."""
    parsed: dict[str, Any] = json.loads(corpus(path).read_text())
    return parsed


def malformed() -> dict[str, dict[str, Any]]:
    """The malformed .tflite and .onnx files by name; empty without the corpora.

    .onnx files are left out where the package onnx, which reads them, is not installed.
    """
    if not (ROOT / "malformed").exists():
        return {}
    cases: dict[str, dict[str, Any]] = index("malformed/index.json")["cases"]
    suffixes = (".tflite", ".onnx") if find_spec("onnx") is not None else (".tflite",)
    return {name: case for name, case in cases.items() if name.endswith(suffixes)}
