"""The exceptions that ONNX Runtime raises; ours are of these classes, and coded besides.

Their text begins with ONNX Runtime's sentence, for scripts that look for it.
"""

from __future__ import annotations

from pathlib import Path

from circlet.errors import (
    CircletError,
    FileError,
    FormatError,
    GraphError,
    InputError,
    UnsupportedOpsError,
)
from circlet.frontends.builtin_errors import also


class Fail(Exception):  # noqa: N818 - the names here are ONNX Runtime's
    """The network cannot be made ready, or a run failed."""


class InvalidArgument(Exception):  # noqa: N818
    """An input or a name does not fit the network, or a file holds none."""


class NoSuchFile(Exception):  # noqa: N818
    """There is no such file."""


class NoModel(Exception):  # noqa: N818
    """There is no model; never raised here."""


class EngineError(Exception):
    """An engine failed; never raised here."""


class RuntimeException(Exception):  # noqa: N818
    """A run failed in another way; never raised here."""


class InvalidProtobuf(Exception):  # noqa: N818
    """The bytes are no .onnx file."""


class ModelLoaded(Exception):  # noqa: N818
    """A model was loaded twice; never raised here."""


class NotImplemented(Exception):  # noqa: A001, N818
    """An operator of the standard cannot be run."""


class InvalidGraph(Exception):  # noqa: N818
    """An operator is none of the standard's."""


class EPFail(Exception):  # noqa: N818
    """An execution provider failed; never raised here."""


_STATUS: dict[type[Exception], str] = {
    Fail: "1 : FAIL",
    InvalidArgument: "2 : INVALID_ARGUMENT",
    NoSuchFile: "3 : NO_SUCHFILE",
    InvalidProtobuf: "7 : INVALID_PROTOBUF",
    NotImplemented: "9 : NOT_IMPLEMENTED",
    InvalidGraph: "10 : INVALID_GRAPH",
}


def status(error: CircletError, kind: type[Exception], message: str) -> CircletError:
    """The error, also of one of the classes here, that begins with ONNX Runtime's sentence."""
    return also(error, kind, f"[ONNXRuntimeError] : {_STATUS[kind]} : {message}")


def refused(what: str, kind: type[Exception], message: str, where: str = "") -> CircletError:
    """The error of an argument that is not taken; its sentence has no status."""
    return also(InputError(what, where=where), kind, message)


def unopened(error: CircletError, path: str | None) -> CircletError:
    """What ONNX Runtime raises where a model of a path, or of bytes, cannot be opened."""
    before = f"Load model from {path} failed:" if path else ""
    if isinstance(error, FileError) and path and not Path(path).exists():
        return status(error, NoSuchFile, f"{before}Load model {path} failed. File doesn't exist")
    if isinstance(error, FormatError) and "damaged" in error.what:
        what = "Protobuf parsing failed."
        if not path:
            what = "Failed to load model because protobuf parsing failed."
        return status(error, InvalidProtobuf, before + what)
    if isinstance(error, UnsupportedOpsError):
        return _unsupported(error, before)
    if isinstance(error, GraphError) and error.what.startswith("a node reads a value"):
        lead = "Invalid model. Node input"
        sentence = "is not a graph input, initializer, or output of a previous node."
        return status(error, InvalidArgument, f"{before}{lead} '{error.why}' {sentence}")
    return status(error, Fail, before + (error.reasons[0] or error.what))


def no_graph(path: str | None) -> CircletError:
    """The error of a file without a network."""
    before = f"Load model from {path} failed:" if path else ""
    error = FormatError("the .onnx file holds no graph", where=path or "")
    return status(error, InvalidArgument, f"{before}No graph was found in the protobuf.")


def _unsupported(error: UnsupportedOpsError, before: str) -> CircletError:
    first = error.entries[0]
    domain, _, kind = first.kind.rpartition(".")
    if _is_standard(domain, kind):
        what = f"Could not find an implementation for {kind}({first.version})"
        return status(error, NotImplemented, f"{what} node with name '{first.source}'")
    if domain:
        what = f"Fatal error: {domain}:{kind}(-1) is not a registered function/op"
        return status(error, Fail, before + what)
    what = f'In Node, ("{first.source}", {kind}, "", -1)'
    why = f"Error No Op registered for {kind} with domain_version of {first.version}"
    return status(error, InvalidGraph, f"{before}This is an invalid model. {what}, {why}")


def _is_standard(domain: str, kind: str) -> bool:
    """Whether the standard, or ONNX Runtime, has an operator that we lack."""
    from onnx import defs

    return domain == "com.microsoft" or defs.has(kind, domain)
