"""A graph of ONNX nodes while it is made: values, constants, and the axes that values have.

A tensor is written in the order of axes in which it is made, and transposed only where something
asks for another order: two transposes that would undo each other are never made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from circlet.errors import LimitError
from circlet.ir import BlockwiseQuant, DType, Origin, Tensor
from circlet.ir.packed import unpacked
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.dense import block_scales, densified

# Axes of the written value by the axes of the tensor: value.shape[i] == tensor.shape[order[i]].
Order = tuple[int, ...]
_STORED = frozenset({DType.INT4, DType.UINT4, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_SHARED_ELEMENTS = 64


class NotWrittenError(Exception):
    """No operators of ONNX say exactly what an operator does; `args[0]` says why."""


@dataclass(eq=False)
class Value:
    """A value of the written graph.

    Attributes:
        name: What it would like to be called.
        data: The elements of a constant.
        is_given: Whether the name is the user's, and taken before others.
    """

    name: str
    data: np.ndarray | None = None
    is_given: bool = False


@dataclass(eq=False)
class Drafted:
    """A node whose values have no final names yet."""

    kind: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, object]
    origin: Origin
    domain: str = ""
    name: str = ""


@dataclass(eq=False)
class Body:
    """A graph within a node: its nodes, inputs and outputs with their tensors."""

    nodes: list[Drafted] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)
    inputs: list[tuple[Value, Tensor]] = field(default_factory=list)
    outputs: list[tuple[Value, Tensor]] = field(default_factory=list)


def identity(rank: int) -> Order:
    """The order in which a tensor of the network has its axes."""
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """The order of ONNX's images: batch, channels, then places."""
    return (0, rank - 1, *range(1, rank - 1))


def is_quantised(tensor: Tensor) -> bool:
    """Whether stored integers stand for real numbers."""
    quant = tensor.quant
    if quant is None or tensor.dtype not in _STORED:
        return False
    return quant.is_affine or isinstance(quant.details, BlockwiseQuant)


class WrittenGraph:
    """The nodes of one graph, and in which forms they have each tensor.

    A graph within a node sees the tensors of the one around it.

    Attributes:
        body: What is made.
        origin: Of the operator that is being written.
        most_ops: How many operators may be written, those of inner graphs included.
    """

    def __init__(self, outer: WrittenGraph | None = None) -> None:
        self.body = Body()
        self.origin = Origin.of(0, "")
        self._forms: dict[Tensor, dict[Order, Value]] = {}
        self._real: dict[tuple[Tensor, Order], Value] = {}
        self._lazy: dict[Tensor, Callable[[Order], Value]] = {}
        self._shared: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self.most_ops = DEFAULT_LIMITS.ops
        self._root: WrittenGraph = self if outer is None else outer._root
        self._ops = 0
        if outer is not None:
            self.origin = outer.origin
            self._forms = {tensor: dict(known) for tensor, known in outer._forms.items()}
            self._lazy = dict(outer._lazy)

    def count_op(self) -> None:
        """Count an operator that is written, once for each time.

        Raises:
            LimitError: Graphs that operators run come to more than a network may have.
        """
        self._root._ops += 1
        if self._root._ops > self._root.most_ops:
            why = f"each graph is written where it is run; the limit is {self._root.most_ops}"
            raise LimitError("the written network has too many operators", why=why)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        names: Sequence[str],
        attributes: Mapping[str, object],
        domain: str = "",
    ) -> list[Value]:
        """Make a node; its results."""
        made = [Value(name) for name in names]
        draft = Drafted(kind, list(inputs), made, dict(attributes), self.origin, domain)
        self.body.nodes.append(draft)
        return made

    def constant(self, elements: npt.ArrayLike, name: str) -> Value:
        """A constant, of the outermost graph; small ones are shared."""
        if self._root is not self:
            return self._root.constant(elements, name)
        array = np.asarray(elements)
        made = Value(name, array)
        if array.size <= _SHARED_ELEMENTS:
            key = (array.dtype.name, array.shape, array.tobytes())
            if key in self._shared:
                return self._shared[key]
            self._shared[key] = made
        self.body.constants.append(made)
        return made

    def make(self, tensor: Tensor, value: Value, order: Order | None = None) -> None:
        """Have a value be what is stored of a tensor, whatever was before."""
        self._forget(tensor)
        self._forms[tensor] = {order or identity(len(tensor.shape)): value}

    def make_later(self, tensor: Tensor, made: Callable[[Order], Value]) -> None:
        """Have a tensor's value be made in the order in which it is asked for."""
        self._forget(tensor)
        self._lazy[tensor] = made

    def is_lazy(self, tensor: Tensor) -> bool:
        """Whether a tensor can be had in every order without a transpose."""
        return tensor.is_constant or tensor in self._lazy

    def natural(self, tensor: Tensor) -> Order:
        """The order in which a tensor is made."""
        own = identity(len(tensor.shape))
        known = self._forms.get(tensor)
        return own if not known or own in known else next(iter(known))

    def alias(self, source: Tensor, result: Tensor, axes: Order) -> None:
        """Have a tensor be another one with its axes in another order, which takes no node."""
        if self.is_lazy(source):
            self.make_later(result, lambda order: self.value(source, _chained(axes, order)))
            return
        known = self._known(source).items()
        self._forget(result)
        self._forms[result] = {
            tuple(axes.index(axis) for axis in order): value for order, value in known
        }

    def value(self, tensor: Tensor, order: Order | None = None) -> Value:
        """What is stored of a tensor, with its axes in an order.

        The order of a constant may have more axes than it: ones are put in front of its own.
        """
        wanted = identity(len(tensor.shape)) if order is None else order
        holder = self._root if tensor.is_constant else self
        known = holder._forms.setdefault(tensor, {})
        if wanted not in known:
            known[wanted] = self._made(tensor, wanted)
        return known[wanted]

    def real(self, tensor: Tensor, order: Order | None = None) -> Value:
        """The real numbers that a tensor stands for; of others than quantised ones the value."""
        wanted = identity(len(tensor.shape)) if order is None else order
        if not is_quantised(tensor):
            return self.value(tensor, wanted)
        if (tensor, wanted) not in self._real:
            self._real[tensor, wanted] = self._dequantised(tensor, wanted)
        return self._real[tensor, wanted]

    def row_major(self, tensor: Tensor) -> Value:
        """What is stored, its elements in the tensor's own order, the sizes perhaps otherwise."""
        sizes = tensor.shape
        for order, value in self._forms.get(tensor, {}).items():
            long = [axis for axis in order if sizes[axis] != 1]
            if long == sorted(long):
                return value
        return self.value(tensor)

    def quantisation(self, tensor: Tensor, order: Order) -> tuple[list[Value], dict[str, object]]:
        """Scale and zero point as operands of QuantizeLinear, and its attributes."""
        quant = tensor.quant
        assert quant is not None
        if quant.is_affine and not quant.is_positive:
            raise NotWrittenError(f"{tensor.name} has scales that are no positive numbers")
        if quant.details is not None:
            return self._blocks(tensor, order)
        per_axis = quant.scale.size > 1
        scale = quant.scale if per_axis else quant.scale.reshape(())
        zeros = quant.zero_point.astype(np.int64)
        zero_dtype = tensor.dtype.in_arrays
        assert zero_dtype is not None
        zero = np.broadcast_to(zeros if zeros.size == scale.size else zeros[:1], scale.size)
        values = [self.constant(scale.astype(np.float32), f"{tensor.name}_scale")]
        if tensor.dtype is not DType.INT32:
            if not np.array_equal(zero.astype(zero_dtype), zero):
                raise NotWrittenError(f"{tensor.name} has a zero point that its type does not hold")
            stored = zero.astype(zero_dtype).reshape(scale.shape)
            values.append(self.constant(stored, f"{tensor.name}_zero_point"))
        extra = len(order) - len(tensor.shape)
        return values, {"axis": order.index(quant.axis + extra)} if per_axis else {}

    def _blocks(self, tensor: Tensor, order: Order) -> tuple[list[Value], dict[str, object]]:
        """Scales of blocks along the last axis."""
        details, scales = tensor.quant and tensor.quant.details, block_scales(tensor)
        if scales is None or not isinstance(details, BlockwiseQuant):
            raise NotWrittenError(f"{tensor.name} is quantised in a form that is not known")
        last = len(tensor.shape) - 1
        if len(order) != len(tensor.shape):
            raise NotWrittenError(f"{tensor.name} has scales of blocks")
        wide = scales.reshape(*tensor.static_shape[:-1], -1).transpose(order)
        value = self.constant(np.ascontiguousarray(wide), f"{tensor.name}_scale")
        return [value], {"axis": order.index(last), "block_size": details.block_size}

    def dequantised(self, tensor: Tensor, stored: Value, order: Order) -> Value:
        """A stored value as real numbers."""
        operands, attributes = self.quantisation(tensor, order)
        name = f"{tensor.name}_real"
        return self.node("DequantizeLinear", [stored, *operands], [name], attributes)[0]

    def _forget(self, tensor: Tensor) -> None:
        """Drop what is known of a tensor: a graph that is run twice is written twice."""
        self._forms.pop(tensor, None)
        self._lazy.pop(tensor, None)
        for key in [key for key in self._real if key[0] is tensor]:
            del self._real[key]

    def _dequantised(self, tensor: Tensor, order: Order) -> Value:
        return self.dequantised(tensor, self.value(tensor, order), order)

    def _known(self, tensor: Tensor) -> dict[Order, Value]:
        known = self._forms.get(tensor)
        if not known:
            raise NotWrittenError(f"{tensor.name or 'a tensor'} is made by nothing before it")
        return known

    def _made(self, tensor: Tensor, order: Order) -> Value:
        if tensor.is_constant:
            return self.constant(elements(tensor, order), tensor.name)
        if tensor in self._lazy:
            return self._lazy[tensor](order)
        source_order, source = next(iter(self._known(tensor).items()))
        if len(order) != len(source_order):
            raise NotWrittenError(f"{tensor.name} is spread over more axes in another order")
        axes = [source_order.index(axis) for axis in order]
        return self.node("Transpose", [source], [source.name], {"perm": axes})[0]


def _chained(axes: Order, order: Order) -> Order:
    """The order of a source that is `order` of the source with its axes in the order `axes`."""
    extra = len(order) - len(axes)
    padded = (*range(extra), *(axis + extra for axis in axes))
    return tuple(padded[axis] for axis in order)


def elements(tensor: Tensor, order: Order) -> np.ndarray:
    """The elements of a constant with its axes in an order, which may have more axes in front.

    Raises:
        NotWrittenError: ONNX has no such type.
    """
    data = tensor.data
    assert data is not None
    if tensor.sparsity is not None:
        dense = densified(tensor)
        if dense is None:
            raise NotWrittenError(f"{tensor.name} is stored in a sparse form that is not known")
        data = dense
    elif tensor.dtype.is_small:
        data = unpacked(tensor)
    elif not tensor.dtype.has_numpy:
        raise NotWrittenError(f"{tensor.name} is of type {tensor.dtype.name}")
    extra = len(order) - data.ndim
    wide = data.reshape((1,) * extra + data.shape)
    return wide if order == identity(len(order)) else np.ascontiguousarray(wide.transpose(order))
