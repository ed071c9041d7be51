"""Circlet as a backend of the package onnx: `onnx.backend.base.Backend`.

    from circlet import onnx_backend
    y = onnx_backend.prepare(onnx.load("model.onnx")).run([x])

`onnx.backend.test.runner.BackendTest(onnx_backend, __name__)` runs ONNX's own tests over it.
"""

from circlet.frontends.onnx_backend import (
    CircletBackend,
    CircletBackendRep,
    prepare,
    run_model,
    run_node,
    supports_device,
)

__all__ = [
    "CircletBackend",
    "CircletBackendRep",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
