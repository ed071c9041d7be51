"""Graphs by hand: a fluent way to make them in importers, passes and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir.dtype import DType
from circlet.ir.graph import Graph, Model, Op, Shape, Signature, Tensor
from circlet.ir.origin import Origin
from circlet.ir.packed import packed
from circlet.ir.quant import Quantization
from circlet.ir.requantization import Requantization


class OutputType(Protocol):
    """What an `infer` callable says of one output."""

    @property
    def dtype(self) -> DType:
        """Element type."""
        ...

    @property
    def shape(self) -> Shape:
        """Sizes, None where unknown."""
        ...


Infer = Callable[[Op], Sequence[OutputType]]
DefaultAttrs = Callable[[str], object]
Policy = Callable[[Op], Requantization | None]


def constant(
    name: str,
    data: npt.ArrayLike,
    quant: Quantization | None = None,
    *,
    dtype: DType | None = None,
    shape: Shape | None = None,
) -> Tensor:
    """A constant tensor over a read-only view of `data`.

    `dtype` and `shape` are needed where numpy has no such type: `data` then holds the raw bytes.
    """
    array = np.asarray(data)
    sizes = array.shape if shape is None else shape
    found = dtype or DType.of(array)
    view = packed(array, found).view() if dtype is None and found.is_small else array.view()
    view.flags.writeable = False
    return Tensor(name, found, sizes, quant, data=view)


@dataclass(eq=False)
class Builder:
    """Makes one graph, op by op; every op gets an origin named after its first output.

    Attributes:
        name: The graph's name.
        infer: Output types of an op, used where none are given; `circlet.ops.build` binds it to
            the operator records.
        default_attrs: Attributes of a kind, used where none are given.
        requantization: The policy of an op, which is set on every op made.
        first_id: Source id of the first op, for further subgraphs of one file.

    Example:
        >>> b = Builder("main")
        >>> x = b.input("x", DType.FLOAT32, (1, 4))
        >>> y = b.op("RELU", [x], name="y", shape=(1, 4))
        >>> graph = b.output(y).build()
    """

    name: str = "main"
    infer: Infer | None = None
    default_attrs: DefaultAttrs | None = None
    first_id: int = 0
    requantization: Policy | None = None
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        self.graph = Graph(self.name)

    def input(
        self, name: str, dtype: DType, shape: Shape, quant: Quantization | None = None
    ) -> Tensor:
        """A new graph input."""
        tensor = self.tensor(name, dtype, shape, quant)
        self.graph.inputs.append(tensor)
        return tensor

    def tensor(
        self, name: str, dtype: DType, shape: Shape, quant: Quantization | None = None
    ) -> Tensor:
        """A new computed tensor that nothing writes yet."""
        return self._listed(Tensor(name, dtype, shape, quant))

    def variable(
        self, name: str, dtype: DType, shape: Shape, quant: Quantization | None = None
    ) -> Tensor:
        """A new tensor whose value lives on from run to run."""
        return self._listed(Tensor(name, dtype, shape, quant, is_variable=True))

    def constant(
        self,
        name: str,
        data: npt.ArrayLike,
        quant: Quantization | None = None,
        *,
        dtype: DType | None = None,
        shape: Shape | None = None,
    ) -> Tensor:
        """A new constant; see the function `constant`."""
        return self._listed(constant(name, data, quant, dtype=dtype, shape=shape))

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        *,
        name: str = "",
        dtype: DType | None = None,
        shape: Shape | None = None,
        quant: Quantization | None = None,
        origin: Origin | None = None,
        version: int = 1,
        custom_code: str = "",
    ) -> Tensor:
        """Append an op with one output and return that output.

        Args:
            name: Name of the output and, without `origin`, of the source operator; by default
                the kind in lower case and the op's position.
            dtype: Output type; by default inferred, else that of the first input.
            shape: Output sizes; by default inferred.
            quant: Quantisation of the output.
        """
        label = name or f"{(custom_code or kind).lower()}_{len(self.graph.ops)}"
        given = dtype or self._first_dtype(inputs)
        output = Tensor(label, given, () if shape is None else shape, quant)
        op = self._append(kind, inputs, [output], attrs, origin, version, custom_code)
        if shape is None:
            self._infer_into(op, keep_dtype=dtype is not None)
        return output

    def op_many(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        attrs: object = None,
        *,
        origin: Origin | None = None,
        version: int = 1,
        custom_code: str = "",
    ) -> list[Tensor]:
        """Append an op with any number of given outputs and return them."""
        op = self._append(kind, inputs, list(outputs), attrs, origin, version, custom_code)
        return op.outputs

    def output(self, *tensors: Tensor) -> Builder:
        """Add graph outputs; returns the builder."""
        self.graph.outputs.extend(tensors)
        return self

    def build(self) -> Graph:
        """The graph made so far."""
        return self.graph

    def model(self, signature: str = "", metadata: Mapping[str, bytes] | None = None) -> Model:
        """A model of the one graph, with a signature of its tensors' names if a key is given."""
        blobs = {k: np.frombuffer(v, np.uint8) for k, v in (metadata or {}).items()}
        model = Model([self.graph], metadata=blobs)
        if signature:
            inputs = {tensor.name: tensor for tensor in self.graph.inputs}
            outputs = {tensor.name: tensor for tensor in self.graph.outputs}
            model.signatures.append(Signature(signature, self.graph, inputs, outputs))
        return model

    def _append(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: list[Tensor],
        attrs: object,
        origin: Origin | None,
        version: int,
        custom_code: str,
    ) -> Op:
        if attrs is None and self.default_attrs is not None:
            attrs = self.default_attrs(kind)
        source = outputs[0].name if outputs else kind.lower()
        origin = origin or Origin.of(self.first_id + len(self.graph.ops), source)
        op = Op(kind, list(inputs), outputs, attrs, origin, version, custom_code)
        if self.requantization is not None:
            op.requantization = self.requantization(op)
        self.graph.ops.append(op)
        self.graph.tensors.extend(outputs)
        return op

    def _infer_into(self, op: Op, keep_dtype: bool) -> None:
        if self.infer is None:
            fix = "give `shape`, or use `circlet.ops.build.builder`"
            raise GraphError(f"{op.label} needs an output shape", where=op.name, fix=fix)
        (inferred,) = self.infer(op)
        op.outputs[0].shape = inferred.shape
        if not keep_dtype:
            op.outputs[0].dtype = inferred.dtype

    def _listed(self, tensor: Tensor) -> Tensor:
        self.graph.tensors.append(tensor)
        return tensor

    @staticmethod
    def _first_dtype(inputs: Sequence[Tensor | None]) -> DType:
        return next((t.dtype for t in inputs if t is not None), DType.FLOAT32)
