"""ONNX Runtime's exceptions and options, under the name that scripts import them from."""

from circlet.frontends.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,  # noqa: A004 - the name is ONNX Runtime's
    RuntimeException,
)
from circlet.frontends.onnxruntime.metadata import ModelMetadata, NodeArg
from circlet.frontends.onnxruntime.options import RunOptions, SessionOptions

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
]
