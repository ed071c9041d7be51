"""One node as a network of its own, and operands for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

Array = np.ndarray
MICROSOFT = "com.microsoft"
OPSET = 20


@dataclass(frozen=True)
class Given:
    """An input of the network: a name of a numpy dtype, and sizes."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """One node, and what it is given, in the operator's order; None for what is left out."""

    kind: str
    operands: tuple[Given | Array | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    results: int = 1
    opset: int = OPSET

    @property
    def title(self) -> str:
        """The kind, the first operands' types and sizes, and the attributes."""
        given = [operand for operand in self.operands if operand is not None]
        sizes = [_described(operand) for operand in given if np.prod(operand.shape) > 1][:2]
        more = [f"{name}={value}" for name, value in self.attributes.items()]
        return " ".join([self.kind, *sizes, *more])

    def content(self) -> bytes:
        """The .onnx file."""
        from onnx import helper

        names = ["" if operand is None else f"x{i}" for i, operand in enumerate(self.operands)]
        results = [f"y{i}" for i in range(self.results)]
        node = helper.make_node(
            self.kind, names, results, "node", domain=self.domain, **self.attributes
        )
        graph = helper.make_graph(
            [node],
            "operator",
            [_input(n, x) for n, x in zip(names, self.operands, strict=True) if _is_given(x)],
            [helper.make_empty_tensor_value_info(name) for name in results],
            [_constant(n, x) for n, x in zip(names, self.operands, strict=True) if _is_array(x)],
        )
        versions = {"": self.opset, **({self.domain: 1} if self.domain else {})}
        opsets = [helper.make_opsetid(name, version) for name, version in versions.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(model.SerializeToString())


def _is_given(operand: Given | Array | None) -> bool:
    return isinstance(operand, Given)


def _is_array(operand: Given | Array | None) -> bool:
    return isinstance(operand, np.ndarray)


def _described(operand: Given | Array) -> str:
    return f"{operand.dtype}[{'x'.join(map(str, operand.shape))}]"


def _input(name: str, given: Any) -> onnx.ValueInfoProto:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(given.dtype))
    return helper.make_tensor_value_info(name, dtype, given.shape)


def _constant(name: str, values: Any) -> onnx.TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(values, name)


def f32(*shape: int) -> Given:
    """An input of floats."""
    return Given("float32", shape)


def u8(*shape: int) -> Given:
    """An input of unsigned bytes."""
    return Given("uint8", shape)


def i8(*shape: int) -> Given:
    """An input of signed bytes."""
    return Given("int8", shape)


def weights(*shape: int) -> Array:
    """Constant floats."""
    return np.random.default_rng(0).uniform(-0.3, 0.3, shape).astype(np.float32)


def digits(*shape: int) -> Array:
    """Constant signed bytes, none of them -128."""
    return np.random.default_rng(0).integers(-127, 128, shape, dtype=np.int8)


def scale(value: float = 0.03) -> Array:
    """A constant scale."""
    return np.array(value, np.float32)


def zero(value: int = 128, dtype: str = "uint8") -> Array:
    """A constant zero point."""
    return np.array(value, dtype)


def ints(*values: int) -> Array:
    """Constant INT64."""
    return np.array(values, np.int64)


def places(count: int, most: int) -> Array:
    """Constant random places below `most`."""
    return np.random.default_rng(1).integers(0, most, count)
