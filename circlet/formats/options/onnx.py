"""How attributes of the domain `onnx` are stored: JSON, as the option bytes of custom operators."""

from __future__ import annotations

import json
from typing import Any

from circlet.errors import FormatError
from circlet.ir import Op
from circlet.ops.onnx.record import OnnxAttrs

_MOST_BYTES = 1 << 24


def encode_onnx(op: Op) -> bytes:
    """The option bytes of an op's attributes: `{"opset": 13, "values": {"axis": 1}}`."""
    attrs = op.attributes(OnnxAttrs)
    said = {"opset": attrs.opset, "values": dict(attrs.values)}
    return json.dumps(said, sort_keys=True).encode()


def decode_onnx(data: bytes) -> OnnxAttrs:
    """The attributes that option bytes say.

    Raises:
        FormatError: They are no such JSON text.
    """
    try:
        said = json.loads(data if len(data) <= _MOST_BYTES else b"")
        values = {str(name): _frozen(value) for name, value in said["values"].items()}
        return OnnxAttrs(tuple(sorted(values.items())), int(said["opset"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError("the options of an ONNX operator are damaged", why=str(error)) from None


def _frozen(value: Any) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
