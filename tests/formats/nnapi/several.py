"""Networks of one NNAPI operation of several results, of any types, with operands left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet import Session
from circlet.formats.nnapi.codes import OperandCode
from circlet.ir import Model
from tests.formats.nnapi.networks import FLOATS, Network

BOOLS, WIDE = "TENSOR_BOOL8", "TENSOR_QUANT16_ASYMM"
PIXELS: dict[str, Any] = {"scale": 0.125, "zeroPoint": 0}  # of boxes, wherever they are stored
Result = tuple[Any, ...]  # a type, sizes, and perhaps how it is quantised


class Several(Network):
    """Collects operands as `Network` does, then runs one operation of several results."""

    def input(
        self, values: object, kind: str = FLOATS, dims: Sequence[int] | None = None, **more: object
    ) -> int:
        """An input of any type, and what it is given."""
        array = np.array(values, OperandCode[kind].dtype.numpy)
        self.given.append(array)
        index = self.operand(kind, array.shape if dims is None else dims, "INPUT", **more)
        self.found["inputs"].append(index)
        return index

    def left_out(self, kind: str = FLOATS) -> int:
        """An optional operand that is not given."""
        return self.operand(kind, (0,), "CONSTANT", omitted=True)

    def makes(self, op: str, inputs: Sequence[int], *results: Result) -> None:
        """The operation; its results, each of a type and sizes, are the outputs."""
        outputs = [
            self.operand(kind, dims, "OUTPUT", **(scales[0] if scales else {}))
            for kind, dims, *scales in results
        ]
        self.found["operations"].append({"op": op, "inputs": [*inputs], "outputs": outputs})
        self.found["outputs"] += outputs

    def answers(self, *given: object) -> list[np.ndarray]:
        """All that the network answers; to other inputs, if they are given."""
        return answers_of(self.model(), [np.asarray(a) for a in given] or self.given)


def answers_of(model: Model, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All that a model answers."""
    session = Session(model, backends=("reference",), cache=False)
    return list(session.run(list(given)).values())
