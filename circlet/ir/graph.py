"""Model, Graph, Op and Tensor: the network as a plain, mutable data structure.

A `Model` holds graphs (the file's subgraphs; `graphs[0]` is the main one). A `Graph` is a list of
ops in execution order over tensors. Tensors are compared by identity; a tensor has at most one
producer. Links are derived (`Graph.producers`, `Graph.consumers`), never stored, so they cannot
go stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import TypeVar

import numpy as np

from circlet.errors import GraphError
from circlet.ir.dtype import DType
from circlet.ir.origin import Origin
from circlet.ir.quant import BlockwiseQuant, Quantization
from circlet.ir.requantization import Requantization

Shape = tuple[int | None, ...]
Attrs = TypeVar("Attrs")


@dataclass(eq=False)
class Sparsity:
    """Storage of a sparse constant, as TFLite's SparsityParameters table holds it."""

    traversal_order: list[int]
    block_map: list[int]
    dims: list[dict[str, object]]


@dataclass(eq=False)
class Tensor:
    """A value of the network, constant or computed.

    Attributes:
        name: The user's name; may be empty or repeated.
        dtype: Element type.
        shape: Sizes, None where unknown until a run; () for a scalar.
        quant: Quantisation parameters, or None.
        data: The constant's elements, or None for a computed tensor. A read-only view, shaped
            like the tensor where `dtype.has_numpy`, else the raw bytes as uint8.
        default_shape: The file's concrete shape where `shape` has unknown sizes (the file's
            `shape` beside its `shape_signature`); equal to `shape` otherwise.
        has_rank: False where the file leaves even the rank open.
        is_variable: Whether the value lives on from run to run.
        sparsity: Sparse storage of `data`, or None.
        extra: Fields of the file's tensor table that nothing here reads, kept for writing back.
        initial: What a variable holds before the first run; None for the zero point everywhere.
        dim_names: The file's names of the sizes, "" for those without; () where there are none.
    """

    name: str
    dtype: DType
    shape: Shape
    quant: Quantization | None = None
    data: np.ndarray | None = None
    default_shape: tuple[int, ...] | None = None
    has_rank: bool = True
    is_variable: bool = False
    sparsity: Sparsity | None = None
    extra: dict[str, object] = field(default_factory=dict)
    initial: np.ndarray | None = None
    dim_names: tuple[str, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known now."""
        return self.data is not None

    @property
    def static_shape(self) -> tuple[int, ...]:
        """Concrete sizes: the shape, or the file's default for its unknown sizes, or 1."""
        if self.default_shape is not None:
            return self.default_shape
        if None not in self.shape:
            return self.shape  # type: ignore[return-value]
        return tuple(1 if size is None else size for size in self.shape)

    @property
    def elements(self) -> int:
        """Number of elements of `static_shape`."""
        return prod(self.static_shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of `static_shape`, packed types rounded up to a whole byte."""
        return (prod(self.static_shape) * self.dtype.bits + 7) // 8

    def like(self, name: str | None = None) -> Tensor:
        """A new computed tensor with the type, shape and quantisation of this one."""
        return Tensor(
            self.name if name is None else name,
            self.dtype,
            self.shape,
            self.quant,
            default_shape=self.default_shape,
            dim_names=self.dim_names,
        )

    def __repr__(self) -> str:
        sizes = "x".join("?" if size is None else str(size) for size in self.shape)
        return f"Tensor({self.name!r}, {self.dtype.name}[{sizes}])"


@dataclass(eq=False)
class Op:
    """One operator instance.

    Attributes:
        kind: Circle builtin name, e.g. "CONV_2D"; "CUSTOM" for custom operators.
        inputs: Tensors in schema order; None for an omitted optional input.
        outputs: Tensors in schema order.
        attrs: The attribute dataclass of the kind's record in `circlet.ops`, or `RawAttrs` for a
            kind without a record.
        origin: The operators of the user's file that this one descends from.
        version: The file's operator version.
        custom_code: Name of a custom operator, else "".
        intermediates: The file's intermediate tensors (quantised LSTM).
        extra: Fields of the file's operator table that nothing here reads, kept for writing back.
        regions: Graphs of the same model that the op runs: branches, loop condition and body.
        requantization: How integer sums become stored values, as the door through which the op
            came has it; None for what has no such sums, and for the default of the records.
    """

    kind: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    attrs: object
    origin: Origin
    version: int = 1
    custom_code: str = ""
    intermediates: list[Tensor] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)
    regions: list[Graph] = field(default_factory=list)
    requantization: Requantization | None = None

    @property
    def name(self) -> str:
        """The user's name for it: its origin."""
        return self.origin.name

    @property
    def label(self) -> str:
        """Kind, with the custom code for custom operators."""
        return f"CUSTOM:{self.custom_code}" if self.kind == "CUSTOM" else self.kind

    def input(self, index: int) -> Tensor | None:
        """Input `index`, or None where it is omitted or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def attributes(self, kind: type[Attrs]) -> Attrs:
        """`attrs`, which must be of this class.

        Raises:
            GraphError: They are of another, so somebody made the op with wrong attributes.
        """
        attrs = self.attrs
        if isinstance(attrs, kind):
            return attrs
        raise GraphError(
            "an operator has the attributes of another kind",
            where=f"{self.name} ({self.label})",
            why=f"{type(attrs).__name__} instead of {kind.__name__}",
        )

    def __repr__(self) -> str:
        return f"Op({self.label}, {self.name!r})"


@dataclass(frozen=True)
class RawAttrs:
    """Attributes of a kind that has no record: the options table and its fields, kept as read.

    `table` is the schema's options table name, or "" for none. `custom` holds a custom
    operator's option bytes.
    """

    table: str = ""
    fields: dict[str, object] = field(default_factory=dict, hash=False)
    custom: bytes = b""


@dataclass(eq=False)
class Graph:
    """Ops in execution order over tensors, with named inputs and outputs.

    `tensors` lists every tensor in file order, unused ones too; new tensors are added by
    `add_tensor` or implicitly by `append`.
    """

    name: str = ""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)

    def add_tensor(self, tensor: Tensor) -> Tensor:
        """List a tensor of this graph; adding it twice changes nothing."""
        if not any(known is tensor for known in self.tensors):
            self.tensors.append(tensor)
        return tensor

    def producers(self) -> dict[Tensor, Op]:
        """The op that writes each computed tensor."""
        return {tensor: op for op in self.ops for tensor in op.outputs}

    def consumers(self) -> dict[Tensor, list[Op]]:
        """The ops that read each tensor, in execution order, each once per tensor."""
        readers: dict[Tensor, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                if tensor is None:
                    continue
                known = readers.setdefault(tensor, [])
                if not known or known[-1] is not op:
                    known.append(op)
        return readers

    def constants(self) -> Iterator[Tensor]:
        """Constant tensors that some op or output uses, each once, in order of first use."""
        for tensor in self.used_tensors():
            if tensor.is_constant:
                yield tensor

    def used_tensors(self) -> Iterable[Tensor]:
        """Every tensor that an op, an input or an output refers to, each once.

        Those that hold the scales of others come last.
        """
        operands = chain.from_iterable((*op.inputs, *op.outputs) for op in self.ops)
        known = dict.fromkeys(chain(self.inputs, operands, self.outputs))
        used = [tensor for tensor in known if tensor is not None]
        quants = [tensor.quant for tensor in used if tensor.quant is not None]
        blocks = [q.details.tensors for q in quants if isinstance(q.details, BlockwiseQuant)]
        return dict.fromkeys([*used, *chain.from_iterable(blocks)])


@dataclass(eq=False)
class Signature:
    """A named entry point: the caller's names of the inputs and outputs of one graph."""

    key: str
    graph: Graph
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


@dataclass(eq=False)
class Model:
    """All graphs of one file and what the file says about itself.

    Attributes:
        graphs: The subgraphs; the first is the main one.
        description: Free text of the file.
        signatures: Named entry points.
        metadata: Named blobs of the file, in file order.
        source_format: "tflite", "circle", ... the format it was read from.
        source_path: The file it was read from, "" for bytes.
        source_bytes: Size of the file it was read from, 0 for models that were built.
        extra: Fields of the file's model table that nothing here reads, kept for writing back.
        associated_files: Files that are packed with the model, by name: labels, vocabularies.
        associated_files_problem: Why they could not be read, "" where they could.
    """

    graphs: list[Graph]
    description: str = ""
    signatures: list[Signature] = field(default_factory=list)
    metadata: dict[str, np.ndarray] = field(default_factory=dict)
    source_format: str = ""
    source_path: str = ""
    source_bytes: int = 0
    extra: dict[str, object] = field(default_factory=dict)
    associated_files: dict[str, bytes] = field(default_factory=dict)
    associated_files_problem: str = ""

    @property
    def main(self) -> Graph:
        """The first graph; the one that runs."""
        return self.graphs[0]
