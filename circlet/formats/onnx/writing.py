"""An operator as writers see it, the nodes that they make of it, and the table of writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from circlet.formats.by_kind import ByKind
from circlet.formats.onnx.written_graph import (
    NotWrittenError,
    Order,
    Value,
    WrittenGraph,
    identity,
    is_quantised,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.operands import known_ints
from circlet.ops.requantize import activation_range, limits
from circlet.words import counted

Attrs = TypeVar("Attrs")
# By the names of activations that layers have: an operator and its limits.
_CLAMPED = frozenset({DType.INT8, DType.UINT8})
_REACHES = frozenset({"NONE", "RELU", "RELU6", "RELU_N1_TO_1"})
_LIMITS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


class Written:
    """One operator, and the nodes that are made of it.

    Attributes:
        op: The operator.
        graph: What the nodes are put into.
    """

    def __init__(self, op: Op, graph: WrittenGraph) -> None:
        self.op, self.graph = op, graph

    def __getitem__(self, index: int) -> Tensor:
        tensor = self.op.input(index)
        if tensor is None:
            raise NotWrittenError(f"its input {index} is omitted")
        return tensor

    @property
    def result(self) -> Tensor:
        """The first result."""
        return self.op.outputs[0]

    @property
    def inputs(self) -> list[Tensor]:
        """All operands, none of which may be omitted."""
        return [self[index] for index in range(len(self.op.inputs))]

    def attrs(self, kind: type[Attrs]) -> Attrs:
        """The operator's attributes."""
        return self.op.attributes(kind)

    # Values that there are.
    def value(self, tensor: Tensor, order: Order | None = None) -> Value:
        """What is stored of a tensor."""
        return self.graph.value(tensor, order)

    def real(self, tensor: Tensor, order: Order | None = None) -> Value:
        """The real numbers that a tensor stands for."""
        return self.graph.real(tensor, order)

    def whole(self, tensor: Tensor) -> Value:
        """Sizes, places or axes as INT64, which ONNX wants."""
        if tensor.data is not None:
            return self.ints(np.asarray(tensor.data).reshape(tensor.static_shape))
        if tensor.dtype is DType.INT64:
            return self.value(tensor)
        return self.cast(self.value(tensor), DType.INT64)

    def known(self, index: int, what: str) -> tuple[int, ...]:
        """The whole numbers that an operand holds, which must be a constant."""
        found = known_ints(self.op.input(index))
        if found is None:
            raise NotWrittenError(f"{what} are computed in a run")
        return found

    def axes(self, values: Sequence[int], rank: int) -> list[int]:
        """Axes counted from the front."""
        if any(not -rank <= axis < rank for axis in values):
            raise NotWrittenError(
                f"there are no axes {list(values)} in {counted(rank, 'dimension')}"
            )
        return [axis + rank if axis < 0 else axis for axis in values]

    def sizes(self, tensor: Tensor) -> tuple[int, ...]:
        """The sizes of a tensor, which must be known."""
        if not tensor.has_rank or None in tensor.shape:
            raise NotWrittenError(f"sizes of {tensor.name} are open")
        return tensor.static_shape

    def constant(self, elements: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Value:
        """A constant."""
        return self.graph.constant(np.asarray(elements, dtype), f"{self.op.name}_constant")

    def ints(self, elements: npt.ArrayLike) -> Value:
        """A constant of INT64."""
        return self.constant(elements, np.int64)

    # Nodes.
    def node(self, kind: str, inputs: Sequence[Value | None], **attributes: object) -> Value:
        """Make a node of one result."""
        name = f"{self.op.name}_{kind}"
        return self.graph.node(kind, inputs, [name], attributes)[0]

    def many(
        self, kind: str, inputs: Sequence[Value | None], count: int, **attributes: object
    ) -> list[Value]:
        """Make a node of several results."""
        names = [f"{self.op.name}_{kind}_{index}" for index in range(count)]
        return self.graph.node(kind, inputs, names, attributes)

    def cast(self, value: Value, dtype: DType) -> Value:
        """A value as another type."""
        from circlet.formats.onnx.protos import number_of

        return self.node("Cast", [value], to=number_of(dtype))

    def reshape(self, value: Value, sizes: Sequence[int]) -> Value:
        """A value in other sizes, of which one may be -1."""
        zero = {"allowzero": 1} if 0 in sizes else {}
        return self.node("Reshape", [value, self.ints(list(sizes))], **zero)

    def activated(self, value: Value, activation: str, dtype: DType = DType.FLOAT32) -> Value:
        """A value behind the activation of a layer."""
        if activation == "NONE":
            return value
        if activation == "RELU":
            return self.node("Relu", [value])
        if activation == "TANH":
            return self.node("Tanh", [value])
        if activation not in _LIMITS:
            raise NotWrittenError(f"no operator applies {activation}")
        low, high = (self.constant(limit, dtype.numpy) for limit in _LIMITS[activation])
        return self.node("Clip", [value, low, high])

    # Results.
    def finish(self, value: Value, activation: str, order: Order | None = None) -> None:
        """Have real numbers behind the activation of a layer be the first result.

        Stored bytes are clamped where they are stored, as integer kernels do it, and not at all
        where the activation ends where their type does.
        """
        tensor = self.result
        if not is_quantised(tensor) or tensor.dtype not in _CLAMPED or activation not in _REACHES:
            self.give(self.activated(value, activation, self.real_dtype(tensor)), order)
            return
        wanted = identity(len(tensor.shape)) if order is None else order
        stored, bounds = (
            self._quantised(tensor, value, wanted),
            activation_range(activation, tensor),
        )
        if bounds != limits(tensor.dtype):
            ends = [self.constant(bound, tensor.dtype.numpy) for bound in bounds]
            stored = self.node("Clip", [stored, *ends])
        self.give_stored(stored, wanted)

    def real_dtype(self, tensor: Tensor) -> DType:
        """The type of the numbers that a tensor stands for."""
        return DType.FLOAT32 if is_quantised(tensor) else tensor.dtype

    def _quantised(self, tensor: Tensor, value: Value, order: Order) -> Value:
        operands, attributes = self.graph.quantisation(tensor, order)
        name = f"{self.op.name}_quantised"
        return self.graph.node("QuantizeLinear", [value, *operands], [name], attributes)[0]

    def give(self, value: Value, order: Order | None = None, index: int = 0) -> None:
        """Have real numbers be a result, which is quantised where the network has it so."""
        tensor = self.op.outputs[index]
        wanted = identity(len(tensor.shape)) if order is None else order
        if is_quantised(tensor):
            value = self._quantised(tensor, value, wanted)
        self.give_stored(value, wanted, index)

    def give_stored(self, value: Value, order: Order | None = None, index: int = 0) -> None:
        """Have a value be what is stored of a result."""
        tensor = self.op.outputs[index]
        if value.data is not None or value.is_given:
            value = self.node("Identity", [value])
        value.name = tensor.name or value.name
        self.graph.make(tensor, value, order)

    # Orders.
    def order(self, tensors: Sequence[Tensor], result: Tensor | None = None) -> Order:
        """The order of axes in which to compute element by element.

        That of the first operand that is not in the network's own, if all can be had so.
        """
        rank = len((result or self.result).shape)
        own = identity(rank)
        for tensor in tensors:
            can_spread = self.graph.is_lazy(tensor) or tensor.elements == 1
            if len(tensor.shape) != rank and not can_spread:
                return own
            if not tensor.has_rank:
                return own
        wide = [t for t in tensors if len(t.shape) == rank and not self.graph.is_lazy(t)]
        return next((o for o in map(self.graph.natural, wide) if o != own), own)

    def spread(self, tensor: Tensor, order: Order, *, stored: bool = False) -> Value:
        """An operand in an order, be it of fewer axes, which count from the last."""
        get = self.value if stored else self.real
        if len(tensor.shape) == len(order):
            return get(tensor, order)
        if order == identity(len(order)):
            return get(tensor)
        return get(tensor, order) if self.graph.is_lazy(tensor) else get(tensor)


Writer = Callable[[Written], None]
WRITERS: ByKind[Writer] = ByKind("writer")
writes = WRITERS.row
