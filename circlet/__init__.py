"""Circlet: an on-device neural engine.

`circlet.Session(path)` reads a .tflite or .circle network, compiles it to native code where that is
not cached yet, and runs it; `circlet.load_artifact(path)` opens what `circlet compile` made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet.compiler.optimize import Optimized, optimize
    from circlet.errors import CircletError
    from circlet.formats import load, save
    from circlet.formats.flexbuffer import flexbuffer
    from circlet.frontends.compiled_model import CompiledModel
    from circlet.frontends.compiled_model_options import (
        CpuKernelMode,
        CpuOptions,
        Environment,
        EnvironmentOptions,
        GpuOptions,
        HardwareAccelerator,
        Options,
    )
    from circlet.frontends.delegates import Delegate, InterpreterWithCustomOps, load_delegate
    from circlet.frontends.interpreter import Interpreter, OpResolverType
    from circlet.frontends.onnxruntime.session import InferenceSession
    from circlet.frontends.signature_runner import SignatureRunner
    from circlet.frontends.tensor_buffer import TensorBuffer
    from circlet.frontends.user_ops import register_op
    from circlet.pareto.api import pareto
    from circlet.profiling import profile
    from circlet.runtime.adaptive import AdaptiveSession
    from circlet.runtime.load_artifact import load_artifact
    from circlet.runtime.session import Session

__version__ = "0.1.0"

_HOMES = {
    "AdaptiveSession": "circlet.runtime.adaptive",
    "CircletError": "circlet.errors",
    "CompiledModel": "circlet.frontends.compiled_model",
    "CpuKernelMode": "circlet.frontends.compiled_model_options",
    "CpuOptions": "circlet.frontends.compiled_model_options",
    "Delegate": "circlet.frontends.delegates",
    "Environment": "circlet.frontends.compiled_model_options",
    "EnvironmentOptions": "circlet.frontends.compiled_model_options",
    "GpuOptions": "circlet.frontends.compiled_model_options",
    "HardwareAccelerator": "circlet.frontends.compiled_model_options",
    "InferenceSession": "circlet.frontends.onnxruntime.session",
    "Interpreter": "circlet.frontends.interpreter",
    "InterpreterWithCustomOps": "circlet.frontends.delegates",
    "OpResolverType": "circlet.frontends.interpreter",
    "Optimized": "circlet.compiler.optimize",
    "Options": "circlet.frontends.compiled_model_options",
    "Session": "circlet.runtime.session",
    "SignatureRunner": "circlet.frontends.signature_runner",
    "TensorBuffer": "circlet.frontends.tensor_buffer",
    "flexbuffer": "circlet.formats.flexbuffer",
    "load": "circlet.formats",
    "load_artifact": "circlet.runtime.load_artifact",
    "load_delegate": "circlet.frontends.delegates",
    "optimize": "circlet.compiler.optimize",
    "pareto": "circlet.pareto.api",
    "profile": "circlet.profiling",
    "register_op": "circlet.frontends.user_ops",
    "save": "circlet.formats",
}

__all__ = [
    "AdaptiveSession",
    "CircletError",
    "CompiledModel",
    "CpuKernelMode",
    "CpuOptions",
    "Delegate",
    "Environment",
    "EnvironmentOptions",
    "GpuOptions",
    "HardwareAccelerator",
    "InferenceSession",
    "Interpreter",
    "InterpreterWithCustomOps",
    "OpResolverType",
    "Optimized",
    "Options",
    "Session",
    "SignatureRunner",
    "TensorBuffer",
    "__version__",
    "flexbuffer",
    "load",
    "load_artifact",
    "load_delegate",
    "optimize",
    "pareto",
    "profile",
    "register_op",
    "save",
]


def __getattr__(name: str) -> object:
    """Import a public name where it is first used, so that `import circlet` stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'circlet' has no attribute {name!r}")
    from circlet.garbage import gc_paused

    with gc_paused():  # modules stay: to look among them takes a tenth of their import
        return getattr(import_module(_HOMES[name]), name)
