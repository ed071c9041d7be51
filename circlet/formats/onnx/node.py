"""One node of an ONNX graph as importers see it, and the ops they make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from circlet.errors import CircletError, FormatError
from circlet.formats.onnx.notes import stated_origin
from circlet.formats.onnx.rank import rank_of
from circlet.formats.onnx.sequences import TensorList
from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ir.packed import unpacked
from circlet.ops import get, is_pure
from circlet.ops.build import default_attrs
from circlet.ops.facts import ShapeAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.ranks import forget_ranks, keeps_rank
from circlet.ops.requantization import litert_requantization
from circlet.ops.verify import RECORD_RULES, op_violations

if TYPE_CHECKING:
    from circlet.formats.onnx.graph import GraphImporter

_FOLDED_BYTES = 1 << 16
_BEFORE_TYPES = RECORD_RULES[:-1]


# Kinds that pass elements on, or only ask for sizes; those of the domain `onnx` are CUSTOM.
_ANY_ELEMENTS = frozenset({"CUSTOM", "IF", "SHAPE", "WHILE"})


def _is_small(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype.is_small


class NotLoweredError(Exception):
    """No record of Circle says exactly what a node means; `args[0]` says why."""


class Node:
    """A node with its operands, attributes and the ops that were made of it so far.

    Attributes:
        kind, domain, opset: Which operator, of which version of its domain.
        inputs: Its operands, None where omitted.
        outputs: Names of its results, "" where nothing reads one.
        attributes: Its attributes as plain values; graphs and tensors as ONNX messages.
        ops: What was made of it.
    """

    def __init__(
        self,
        graph: GraphImporter,
        proto: Any,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        opset: int,
    ) -> None:
        self.graph, self.proto, self.opset = graph, proto, opset
        self.kind, self.domain = str(proto.op_type), str(proto.domain)
        self.inputs, self.outputs = list(inputs), [str(name) for name in proto.output]
        self.attributes = attributes
        self.ops: list[Op] = []
        first = next((name for name in self.outputs if name), self.kind.lower())
        self.name = str(proto.name) or first
        own = Origin.of(graph.next_id(), self.name)
        self.origin = stated_origin(getattr(proto, "metadata_props", ()), self.name) or own

    def __getitem__(self, index: int) -> Tensor:
        tensor = self.optional(index)
        if tensor is None:
            raise self.wrong(f"{self.kind} lacks its input {index}")
        return tensor

    def optional(self, index: int) -> Tensor | None:
        """Operand `index`, None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, index: int) -> bool:
        """Whether something reads result `index`."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def whole(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self.attributes.get(name, default))

    def real(self, name: str, default: float) -> float:
        """A float attribute, a float32 value."""
        return float(np.float32(self.attributes.get(name, default)))

    def text(self, name: str, default: str = "") -> str:
        """A text attribute."""
        return str(self.attributes.get(name, default))

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None where it is not given."""
        found = self.attributes.get(name)
        return None if found is None else tuple(int(value) for value in found)

    def is_fixed(self, tensor: Tensor) -> bool:
        """Whether the elements are the same in every run, be they stored as integers."""
        return tensor.data is not None or tensor in self.graph.fixed

    def known(self, index: int) -> np.ndarray | None:
        """The elements of an operand, None where it is omitted or computed in a run."""
        tensor = self.optional(index)
        return None if tensor is None else tensor.data

    def known_ints(self, index: int) -> tuple[int, ...] | None:
        """The elements of an operand as integers, None where they are not known."""
        data = self.known(index)
        return None if data is None else tuple(int(value) for value in data.reshape(-1))

    def wrong(self, what: str, why: str = "") -> FormatError:
        """An error about the node."""
        return FormatError(what, where=f"{self.name} ({self.kind})", why=why)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front; FormatError where there is none."""
        if not -rank <= axis < rank:
            raise self.wrong("an axis does not exist", f"axis {axis} of {rank}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes counted from the front."""
        return tuple(self.axis(axis, rank) for axis in axes)

    def rank(self, tensor: Tensor) -> int:
        """The number of dimensions of a tensor, which must be known."""
        return rank_of(tensor)

    def const(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Tensor:
        """A constant of this node."""
        try:
            return constant(f"{self.name}_constant", np.asarray(values, dtype))
        except OverflowError as error:
            raise self.wrong("a number is too large", str(error)) from None

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        dtype: DType | None = None,
        custom_code: str = "",
    ) -> Tensor:
        """Make an op with one result, and give the result.

        Raises:
            NotLoweredError: No record takes such operands.
        """
        first = next(t for t in inputs if t is not None)
        return self.many(kind, inputs, attrs, [dtype or first.dtype], custom_code)[0]

    def many(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object,
        dtypes: Sequence[DType],
        custom_code: str = "",
        regions: Sequence[Graph] = (),
    ) -> list[Tensor]:
        """Make an op with results of some types; as `op`."""
        given = default_attrs(kind) if attrs is None else attrs
        label = f"{self.name}_{len(self.ops)}"
        outputs = [Tensor(label, dtype, (), has_rank=False) for dtype in dtypes]
        op = Op(kind, list(inputs), outputs, given, self.origin, custom_code=custom_code)
        op.regions = list(regions)
        op.requantization = litert_requantization(op)
        self._infer(op)
        if self._folds(op):
            return self._folded(op)
        self.ops.append(op)
        return outputs

    def _infer(self, op: Op) -> None:
        graph = self.graph.graph
        if any(isinstance(tensor, TensorList) for tensor in op.inputs):
            raise NotLoweredError("it takes a sequence")
        if op.kind not in _ANY_ELEMENTS and any(map(_is_small, (*op.inputs, *op.outputs))):
            raise NotLoweredError("operators of Circle do not take elements of such types")
        for violation in op_violations(op, graph, _BEFORE_TYPES):
            raise NotLoweredError(violation.message)
        try:
            types = get(op).infer(op)
        except CircletError as error:
            raise NotLoweredError(f"{error.what} {error.why}") from None
        for tensor, inferred in zip(op.outputs, types, strict=True):
            if tensor.dtype is not inferred.dtype:
                raise NotLoweredError(f"{op.label} computes {inferred.dtype.name}")
            tensor.shape, tensor.has_rank = inferred.shape, inferred.has_rank
        if not keeps_rank(op):
            forget_ranks(op)

    def _folds(self, op: Op) -> bool:
        inputs = [tensor for tensor in op.inputs if tensor is not None]
        if op.kind == "SHAPE":
            return inputs[0].has_rank and None not in inputs[0].shape
        known = inputs and all(tensor.data is not None for tensor in inputs)
        sizes = sum(tensor.size_bytes for tensor in (*inputs, *op.outputs))
        static = all(None not in tensor.shape for tensor in op.outputs)
        if op.label == DEQUANTIZE:
            return False  # integer kernels read what is stored
        return bool(known) and static and sizes <= _FOLDED_BYTES and is_pure(op)

    def _folded(self, op: Op) -> list[Tensor]:
        arrays = [None if t is None else t.data for t in op.inputs]
        if op.kind == "SHAPE":
            source = op.inputs[0]
            assert source is not None
            arrays = [np.broadcast_to(np.uint8(0), source.static_shape)]
        with np.errstate(all="ignore"):
            results = get(op).evaluate(op, arrays)
        return [constant(t.name, a) for t, a in zip(op.outputs, results, strict=True)]

    # What many importers need.
    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """`x` with its axes in another order."""
        if list(order) == list(range(len(order))):
            return x
        return self.op("TRANSPOSE", [x, self.const(order, np.int32)])

    def channels_last(self, x: Tensor) -> Tensor:
        """NCHW, with any number of spatial axes, as NHWC."""
        return self.transpose(x, [0, *range(2, self.rank(x)), 1])

    def channels_first(self, x: Tensor) -> Tensor:
        """NHWC as NCHW."""
        rank = self.rank(x)
        return self.transpose(x, [0, rank - 1, *range(1, rank - 1)])

    def reshape(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """`x` in other sizes, of which one may be -1."""
        from circlet.ops.shape import ReshapeAttrs

        target = tuple(int(size) for size in sizes)
        return self.op("RESHAPE", [x, self.const(target, np.int32)], ReshapeAttrs(target))

    def sizes(self, x: Tensor) -> Tensor:
        """The sizes of `x` as INT64."""
        return self.op("SHAPE", [x], ShapeAttrs("INT64"), DType.INT64)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """`x` as another type."""
        from circlet.ops.quantize import CastAttrs

        if x.dtype is dtype:
            return x
        if x.data is not None and dtype.has_numpy and x.size_bytes <= _FOLDED_BYTES:
            known = unpacked(x).astype(np.float32) if x.dtype.is_small else x.data
            return self.const(known.astype(dtype.numpy))
        return self.op("CAST", [x], CastAttrs(x.dtype.name, dtype.name), dtype)
