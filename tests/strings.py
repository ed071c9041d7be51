"""Strings as a constant's buffer holds them, and runs of LiteRT's default kernels over them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from circlet.ir import DType, Tensor


def packed(*strings: bytes) -> np.ndarray:
    """The bytes of a STRING constant."""
    offsets = np.cumsum([4 * (len(strings) + 2), *map(len, strings)]).tolist()
    head = struct.pack(f"<{len(offsets) + 1}i", len(strings), *offsets)
    return np.frombuffer(head + b"".join(strings), np.uint8)


def strings(name: str, *elements: bytes) -> Tensor:
    """A constant list of strings."""
    return Tensor(name, DType.STRING, (len(elements),), data=packed(*elements))


def litert_results(content: bytes, arrays: Sequence[np.ndarray], runs: int = 1) -> list[np.ndarray]:
    """What LiteRT's default kernels give at the last of several runs."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_content=content, experimental_op_resolver_type=plain)
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays, strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for _ in range(runs):
        for detail, array in zip(details, arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
    outputs = interpreter.get_output_details()
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in outputs]
