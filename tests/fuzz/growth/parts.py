"""Tables of one file in the making: operators, constants, and what they refer to by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from circlet.formats import schema
from circlet.formats.flatbuffer_writer import Writer

Values = dict[str, object]
_SCHEMA = schema.by_name("tflite")
_LARGEST_OLD_CODE = 127
_LARGE_SHARE, _HUGE_SHARE = 0.06, 0.01


def amount(
    random: Random, small: Sequence[int], large: Sequence[int], huge: Sequence[int] = ()
) -> int:
    """How many of something: seldom many, as one file of many takes the time of hundreds of few."""
    drawn = random.random()
    if huge and drawn < _HUGE_SHARE:
        return random.choice(huge)
    return random.choice(large if drawn < _LARGE_SHARE else small)


def tensor(name: str, dtype: str = "FLOAT32", shape: Sequence[int] = (4,)) -> Values:
    """A computed tensor."""
    return {"name": name, "type": dtype, "shape": list(shape)}


class Parts:
    """Operator codes and buffers of one file, and the graphs over them."""

    def __init__(self) -> None:
        self.codes: list[Values] = []
        self.buffers: list[Values] = [{}]
        self.graphs: list[Values] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def code(self, kind: str, custom: str = "") -> int:
        """The number of an operator code."""
        key = (kind, custom)
        if key not in self._numbers:
            self._numbers[key] = len(self.codes)
            number = _SCHEMA.enums["BuiltinOperator"].values[kind]
            old = min(number, _LARGEST_OLD_CODE)
            self.codes.append({"deprecated_builtin_code": old, "builtin_code": number})
            if custom:
                self.codes[-1]["custom_code"] = custom
        return self._numbers[key]

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Mapping[str, object] | None = None,
        custom: str = "",
    ) -> Values:
        """An operator on tensors of its graph by their numbers."""
        made: Values = {"opcode_index": self.code(kind, custom)}
        made |= {"inputs": list(inputs), "outputs": list(outputs)}
        if options is not None:
            second = str(options["table"]).startswith("StableHLO")
            made["builtin_options2" if second else "builtin_options"] = options
        return made

    def constant(self, name: str, data: np.ndarray) -> Values:
        """A constant tensor with a buffer of its own."""
        self.buffers.append({"data": data.tobytes()})
        made = tensor(name, data.dtype.name.upper(), data.shape)
        return made | {"buffer": len(self.buffers) - 1}

    def graph(
        self,
        tensors: Sequence[Values],
        operators: Sequence[Values],
        inputs: Sequence[int],
        outputs: Sequence[int],
        name: str = "",
    ) -> Values:
        """Add a graph."""
        ends: Values = {"inputs": list(inputs), "outputs": list(outputs)}
        made: Values = {"tensors": list(tensors), "operators": list(operators), **ends}
        self.graphs.append(made | {"name": name or f"graph{len(self.graphs)}"})
        return self.graphs[-1]

    def encode(self, writer: type[Writer] = Writer, /, **more: object) -> bytes:
        """The file."""
        values: Values = {"version": 3, "operator_codes": self.codes, "subgraphs": self.graphs}
        return bytes(writer(_SCHEMA).finish("Model", values | {"buffers": self.buffers} | more))
