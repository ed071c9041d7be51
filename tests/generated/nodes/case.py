"""One generated ONNX node: its types from the schema, its operands from a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from circlet.ir import DType
from circlet.ops.onnx.record import PREFIX
from tests.generated.draw import Draw, Sizes

# Types of tensors that cases are made of, by the schema's words.
_TYPES = {
    "tensor(float)": DType.FLOAT32,
    "tensor(double)": DType.FLOAT64,
    "tensor(float16)": DType.FLOAT16,
    "tensor(int8)": DType.INT8,
    "tensor(uint8)": DType.UINT8,
    "tensor(int16)": DType.INT16,
    "tensor(uint16)": DType.UINT16,
    "tensor(int32)": DType.INT32,
    "tensor(uint32)": DType.UINT32,
    "tensor(int64)": DType.INT64,
    "tensor(uint64)": DType.UINT64,
    "tensor(bool)": DType.BOOL,
}


@dataclass(frozen=True)
class NodeParts:
    """What a recipe makes.

    Attributes:
        inputs: Operands; None for one that is omitted.
        constants: Which of them the network holds.
        outputs: How many outputs the node has.
    """

    inputs: Sequence[np.ndarray | None]
    attrs: Mapping[str, object] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    outputs: int = 1


@dataclass
class NodeDraw:
    """Choices of one node.

    Attributes:
        dtype: The type of input 0, one of those that the schema allows.
    """

    draw: Draw
    schema: Any
    dtype: DType

    def array(self, shape: Sizes, dtype: DType | None = None) -> np.ndarray:
        """Elements in the style of the case."""
        return self.draw.values(dtype or self.dtype, shape)

    def allowed(self, index: int) -> list[DType]:
        """Types that the schema allows for an input."""
        return allowed_types(self.schema, self.schema.inputs[index].type_str)


NodeRecipe = Callable[[NodeDraw], NodeParts]


def allowed_types(schema: Any, name: str) -> list[DType]:
    """Types of tensors that a type variable, or a type, of a schema stands for."""
    found = [c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == name]
    words = found[0] if found else [name]
    return [_TYPES[word] for word in words if word in _TYPES]


@dataclass
class NodeCase:
    """A node with its operands; `wanted` is what the judge gives, or why it does not."""

    name: str
    kind: str
    parts: NodeParts
    wanted: list[np.ndarray] | str = ""

    @property
    def inputs(self) -> list[np.ndarray]:
        """Operands that the caller gives."""
        pairs = enumerate(self.parts.inputs)
        return [x for i, x in pairs if x is not None and i not in self.parts.constants]

    @property
    def op_type(self) -> str:
        """The node's operator."""
        return self.kind.partition(PREFIX)[2]

    def node(self) -> Any:
        """The node, whose tensors bear the case's name."""
        from onnx import helper

        names = ["" if x is None else f"{self.name}/in{i}" for i, x in enumerate(self.parts.inputs)]
        outputs = [f"{self.name}/out{i}" for i in range(self.parts.outputs)]
        return helper.make_node(self.op_type, names, outputs, name=self.name, **self.parts.attrs)

    def ends(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Inputs, constants and outputs as a graph of ONNX states them."""
        from onnx import helper, numpy_helper

        inputs, constants = [], []
        for index, array in enumerate(self.parts.inputs):
            name = f"{self.name}/in{index}"
            if array is None:
                continue
            if index in self.parts.constants:
                constants.append(numpy_helper.from_array(array, name))
                continue
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        if isinstance(self.wanted, str):
            names = [f"{self.name}/out{i}" for i in range(self.parts.outputs)]
            return inputs, constants, [helper.make_empty_tensor_value_info(n) for n in names]
        outputs = [
            helper.make_tensor_value_info(
                f"{self.name}/out{i}", helper.np_dtype_to_tensor_dtype(made.dtype), made.shape
            )
            for i, made in enumerate(self.wanted)
        ]
        return inputs, constants, outputs

    def __str__(self) -> str:
        operands = ", ".join(
            "_" if x is None else f"{x.dtype}{list(x.shape)}{'c' * (i in self.parts.constants)}"
            for i, x in enumerate(self.parts.inputs)
        )
        return f"{self.name}({operands}) {dict(self.parts.attrs)}"


def joined(cases: Sequence[NodeCase]) -> bytes:
    """One model of several nodes side by side."""
    from onnx import helper

    inputs, constants, outputs = [], [], []
    for case in cases:
        own = case.ends()
        inputs += own[0]
        constants += own[1]
        outputs += own[2]
    nodes = [case.node() for case in cases]
    graph = helper.make_graph(nodes, "generated", inputs, outputs, initializer=constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest_opset())])
    return bytes(model.SerializeToString())


def newest_opset() -> int:
    """The newest operator set that the installed package knows."""
    from onnx.defs import onnx_opset_version

    return int(onnx_opset_version())
