"""Small networks as files, and an engine's absence as a reason to skip."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.synthetic import network

MODULES = {"litert": "ai_edge_litert", "openvino": "openvino", "onnxruntime": "onnxruntime"}


def small_file(folder: Path, kind: str = "fp32") -> Path:
    """A convolutional network of a few layers over pictures of 16 by 16."""
    path = folder / f"small_{kind}.tflite"
    path.write_bytes(network(kind, 1, 16))
    return path


def need(engine: str) -> None:
    """Skip where a peer is not installed."""
    if engine in MODULES and find_spec(MODULES[engine]) is None:
        pytest.skip(f"{engine} is not installed: pip install 'circlet[bench]'")
