from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.frontends.interpreters import circlet, litert


@pytest.fixture(params=[litert, circlet], ids=["litert", "circlet"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes an interpreter of one engine; each test runs with both."""
    return request.param


@pytest.fixture(params=["onnxruntime", "circlet.onnxruntime"], ids=["onnxruntime", "circlet"])
def ort(request: pytest.FixtureRequest) -> Any:
    """The module of one engine with ONNX Runtime's interface; each test runs with both."""
    module = pytest.importorskip(request.param, reason="ONNX Runtime is not installed")
    if request.param == "onnxruntime":
        module.set_default_logger_severity(4)
    return module


@pytest.fixture
def errors(ort: Any) -> Any:
    """The module of that engine's errors."""
    return import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")


@pytest.fixture
def scaled(ort: Any) -> Any:
    """A session of `onnx_models.scaled`."""
    from tests.frontends import onnx_models  # It needs the package onnx.

    return ort.InferenceSession(onnx_models.scaled())
