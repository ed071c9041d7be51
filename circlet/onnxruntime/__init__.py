"""ONNX Runtime's module, with Circlet behind it.

import circlet.onnxruntime as onnxruntime  # was: import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(y,) = session.run(None, {"x": x})
"""

from circlet import __version__
from circlet.frontends.onnxruntime.devices import (
    OrtAllocatorType,
    OrtDevice,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemoryInfo,
    OrtMemType,
)
from circlet.frontends.onnxruntime.io_binding import IOBinding
from circlet.frontends.onnxruntime.log import (
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from circlet.frontends.onnxruntime.metadata import ModelMetadata, NodeArg
from circlet.frontends.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from circlet.frontends.onnxruntime.ort_value import OrtValue
from circlet.frontends.onnxruntime.providers import (
    get_all_providers,
    get_available_providers,
    get_device,
)
from circlet.frontends.onnxruntime.session import InferenceSession

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "create_and_register_allocator",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


def get_version_string() -> str:
    """Circlet's version."""
    return __version__


def get_build_info() -> str:
    """What stands behind the interface."""
    return f"ORT Build Info: Circlet {__version__}"


def enable_telemetry_events() -> None:
    """Nothing: Circlet sends nothing to anyone."""


def disable_telemetry_events() -> None:
    """Nothing: Circlet sends nothing to anyone."""


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: object = None) -> None:
    """Nothing: the compiler plans the memory of networks."""


def set_seed(seed: int) -> None:
    """Nothing: no operator draws random numbers from a seed that is shared."""
