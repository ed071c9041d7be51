"""Networks of one NNAPI operation, as the JSON objects that files hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet import Session
from circlet.formats.nnapi.read import read_nnapi
from circlet.ir import Model

FLOATS, BYTES, INTS = "TENSOR_FLOAT32", "TENSOR_QUANT8_ASYMM", "TENSOR_INT32"
SAME, VALID = 1, 2
NONE, RELU = 0, 1


class Network:
    """Collects operands, then runs one operation over them.

    Attributes:
        found: The JSON object.
        given: What the inputs are given, in order.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {"operands": [], "operations": [], "inputs": [], "outputs": []}
        self.given: list[np.ndarray] = []

    def operand(self, kind: str, dims: Sequence[int], lifetime: str, **more: object) -> int:
        """The index of a new operand."""
        operands = self.found["operands"]
        name = f"operand{len(operands)}"
        entry = {"name": name, "type": kind, "dims": [*dims], "lifetime": lifetime, "data": None}
        operands.append({**entry, **more})
        return len(operands) - 1

    def input(
        self, values: object, kind: str = FLOATS, dims: Sequence[int] | None = None, **more: object
    ) -> int:
        """An input and what it is given; `dims` where they are not those of the values."""
        dtype = {FLOATS: "f4", BYTES: "u1", INTS: "i4", "TENSOR_FLOAT16": "f2"}[kind]
        array = np.array(values, dtype)
        self.given.append(array)
        index = self.operand(kind, array.shape if dims is None else dims, "INPUT", **more)
        self.found["inputs"].append(index)
        return index

    def constant(self, values: object, kind: str = FLOATS, **more: object) -> int:
        """A constant tensor."""
        array = np.array(values)
        data = array.reshape(-1).tolist()
        return self.operand(kind, array.shape, "CONSTANT", data=data, **more)

    def scalar(self, value: float | bool) -> int:
        """A constant BOOL, INT32 or FLOAT32."""
        kind = {bool: "BOOL", int: "INT32", float: "FLOAT32"}[type(value)]
        return self.operand(kind, (), "CONSTANT", data=[value])

    def scalars(self, *values: float | bool) -> list[int]:
        """Some of them."""
        return [self.scalar(value) for value in values]

    def operation(
        self,
        op: str,
        inputs: Sequence[int],
        dims: Sequence[int],
        kind: str = FLOATS,
        **more: object,
    ) -> None:
        """The operation; its result is the output."""
        output = self.operand(kind, dims, "OUTPUT", **more)
        self.found["operations"].append({"op": op, "inputs": [*inputs], "outputs": [output]})
        self.found["outputs"].append(output)

    def model(self) -> Model:
        """The model that a file with this network holds."""
        return read_nnapi(memoryview(json.dumps(self.found).encode()))

    def run(self, *given: object) -> np.ndarray:
        """What the network answers; to other inputs, if they are given."""
        session = Session(self.model(), backends=("reference",), cache=False)
        arrays = [np.asarray(array) for array in given] or self.given
        (result,) = session.run(arrays).values()
        return result
