"""A graph of an ONNX file as a graph of records, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from circlet.errors import FormatError, GraphError, LimitError, UnsupportedOp
from circlet.formats.onnx.attributes import attribute_value, stored_attributes
from circlet.formats.onnx.checked import place
from circlet.formats.onnx.halves import OTHER_TYPES, TYPED, Halves
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.rank import UnknownRankError
from circlet.formats.onnx.sequences import GrowingList, StackedList, TensorList, tensor_list
from circlet.formats.onnx.table import find_importer
from circlet.formats.onnx.tensors import TensorStore, dtype_of
from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.limits import Limits
from circlet.ops import find
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.ops.shape import copy_op
from circlet.words import counted

# Kinds whose importers take elements of any type, stored in whatever form.
_PASSING = TYPED | {"Identity", "If", "Loop", "Scan", "Shape", "Size", "SequenceConstruct"}
_PASSING |= {"Optional", "OptionalGetElement", "OptionalHasElement", "SequenceInsert"}
_PASSING |= {"GatherBlockQuantized"}
_MOST_TRIED = 1 << 13


@dataclass
class Reading:
    """State of the import of one file.

    Attributes:
        store: Where elements of tensors are.
        limits: Bounds on counts.
        opsets: The version of each domain.
        unsupported: The operators that cannot be imported.
        graphs: Graphs that operators run, as they are made.
        ops: How many nodes were read.
        tried: How many nodes of loops were read to see whether a form of theirs fits.
    """

    store: TensorStore
    limits: Limits
    opsets: Mapping[str, int]
    unsupported: list[UnsupportedOp] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    ops: int = 0
    tried: int = 0

    def may_try(self, nodes: int) -> bool:
        """Whether so many nodes of a loop may be read once more: loops in loops multiply them."""
        self.tried += nodes
        return self.tried <= _MOST_TRIED

    def next_id(self) -> int:
        """The number of the next source operator."""
        if self.ops >= self.limits.ops:
            raise LimitError("the file has too many operators", why=f"{self.ops}")
        self.ops += 1
        return self.ops - 1


class GraphImporter:
    """One graph; its values by their names, those of the graphs around it included.

    Attributes:
        graph: What is made.
        captured: Values of the graph around this one that it reads, and its inputs for them.
        fixed: What is dequantised of constants, which stay as they are stored.
    """

    def __init__(self, state: Reading, proto: Any, outer: GraphImporter | None = None) -> None:
        self.state, self.proto, self.outer = state, proto, outer
        self.graph = Graph(str(proto.name))
        self.captured: dict[Tensor, Tensor] = {}
        self.fixed: set[Tensor] = set()
        self._scope: dict[str, Tensor] = {}
        self._unknown: set[Tensor | None] = set()
        self._halves = Halves()
        self._producers: dict[Tensor, Op] = {}
        self._seen_ops = 0
        self._is_inlined = False
        self._stated = {v.name: v for v in (*proto.value_info, *proto.output)}

    def next_id(self) -> int:
        """The number of the next source operator."""
        return self.state.next_id()

    def producer(self, tensor: Tensor) -> Op | None:
        """The op of the graph so far that writes a tensor."""
        for op in self.graph.ops[self._seen_ops :]:
            self._producers |= dict.fromkeys(op.outputs, op)
        self._seen_ops = len(self.graph.ops)
        return self._producers.get(tensor)

    def run(self) -> Graph:
        """The graph."""
        self._read_initializers()
        self._read_inputs()
        for proto in self.proto.node:
            self._import(proto)
        if not self.state.unsupported:
            self._set_outputs()
        self.graph.tensors = list(self.graph.used_tensors())
        if len(self.graph.tensors) > self.state.limits.tensors:
            raise LimitError("a graph has too many tensors", where=self.graph.name)
        return self.graph

    def inner(self, proto: Any) -> GraphImporter:
        """An importer of a graph that a node of this one runs."""
        if len(self.state.graphs) >= self.state.limits.subgraphs:
            raise LimitError("the file has too many graphs", why=f"{len(self.state.graphs)}")
        depth, around = 0, self.outer
        while around is not None:
            depth, around = depth + 1, around.outer
        if depth >= self.state.limits.call_depth:
            raise LimitError("graphs call each other too deeply", why=counted(depth, "level"))
        return GraphImporter(self.state, proto, self)

    def inlined(self, proto: Any) -> tuple[list[Op], list[Tensor]]:
        """The ops of a graph that always runs, as ops of this graph, and its results."""
        inner = self.inner(proto)
        inner._is_inlined = True
        inner._read_initializers()
        for node in proto.node:
            inner._import(node)
        results = [inner.value(out.name, f"output of {proto.name}") for out in proto.output]
        return inner.graph.ops, results

    def unfolded(self, proto: Any, given: Sequence[Tensor]) -> tuple[list[Op], list[Tensor]]:
        """The ops of a graph over some tensors, as ops of this graph, and its results."""
        inner = self.inner(proto)
        inner._is_inlined = True
        results = inner.bound(given)
        return inner.graph.ops, results

    def bound(self, given: Sequence[Tensor]) -> list[Tensor]:
        """The results of a graph whose inputs are these tensors.

        Raises:
            GraphError: It takes more or fewer inputs.
        """
        names = [str(value.name) for value in self.proto.input]
        if len(names) != len(given):
            why = f"it takes {len(names)}, given are {len(given)}"
            raise GraphError("a graph takes other inputs", where=self.graph.name, why=why)
        self._scope.update(zip(names, given, strict=True))
        self._read_initializers()
        for node in self.proto.node:
            self._import(node)
        if self.state.unsupported:
            return []
        where = f"output of {self.graph.name}"
        return [self.value(out.name, where) for out in self.proto.output]

    def value(self, name: str, where: str) -> Tensor:
        """The tensor of a name.

        Raises:
            GraphError: Nothing before has that name.
        """
        found = self._scope.get(name)
        if found is not None:
            return found
        if self.outer is None:
            raise GraphError(
                "a node reads a value that nothing before it gives", where=where, why=name
            )
        outer = self.outer.value(name, where)
        return outer if self._is_inlined else self._capture(outer)

    def _capture(self, outer: Tensor) -> Tensor:
        if isinstance(outer, StackedList) and outer.stack is not None:
            return replace(outer, stack=self._capture(outer.stack))
        if isinstance(outer, GrowingList):
            return replace(outer, items=None)
        if isinstance(outer, TensorList):
            items = outer.items
            return tensor_list(outer.name, items and [self._capture(item) for item in items])
        if outer.data is not None:
            return constant(outer.name, outer.data)
        if outer not in self.captured:
            self.captured[outer] = outer.like()
            self.captured[outer].has_rank = outer.has_rank
        return self.captured[outer]

    def _read_initializers(self) -> None:
        for proto in self.proto.initializer:
            self._scope[proto.name] = self.state.store.tensor(proto)
        for proto in self.proto.sparse_initializer:
            name = str(proto.values.name)
            raise FormatError("a constant in sparse storage is not read", where=name)

    def _read_inputs(self) -> None:
        """Inputs; those with a value of their own are constants, as callers leave them out."""
        for proto in self.proto.input:
            if proto.name in self._scope and self.outer is None:
                continue
            tensor = self._tensor(proto)
            if tensor.name in {t.name for t in self.graph.inputs}:
                raise GraphError("two inputs have one name", where=tensor.name)
            self._scope[tensor.name] = tensor
            self.graph.inputs.append(tensor)

    def _tensor(self, proto: Any) -> Tensor:
        """A computed tensor as a value_info states it."""
        kind = proto.type.WhichOneof("value")
        if kind != "tensor_type":
            said = kind or "of no type"
            raise FormatError("only tensors are read", where=proto.name, why=f"it is {said}")
        stated = proto.type.tensor_type
        tensor = Tensor(str(proto.name), dtype_of(stated.elem_type, proto.name), ())
        tensor.has_rank = stated.HasField("shape")
        dims = list(stated.shape.dim)
        if len(dims) > self.state.limits.rank:
            raise LimitError("a tensor has too many dimensions", where=tensor.name)
        sizes = [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in dims]
        if any(size is not None and size < 0 for size in sizes):
            raise GraphError("a tensor has a negative size", where=tensor.name, why=str(sizes))
        tensor.shape = tuple(sizes)
        names = tuple(str(dim.dim_param) for dim in dims)
        tensor.dim_names = names if any(names) else ()
        return tensor

    def _import(self, proto: Any) -> None:
        where = place(proto)
        domain = "" if proto.domain == "ai.onnx" else str(proto.domain)
        inputs = [self.value(name, where) if name else None for name in proto.input]
        values = {a.name: attribute_value(a, where) for a in proto.attribute}
        opset = self.state.opsets.get(domain, 1 if domain else 0)
        node = Node(self, proto, inputs, values, opset)
        node.domain = domain
        missing = len(self.state.unsupported)
        results = None if self._unknown.intersection(inputs) else self._lowered(node)
        if results is None or len(self.state.unsupported) > missing:
            # What reads it is not looked at: the report names what is missing.
            results = [Tensor(name, DType.FLOAT32, (), has_rank=False) for name in node.outputs]
            self._unknown.update(results)
        self.graph.ops += node.ops
        made = {tensor for op in node.ops for tensor in op.outputs}
        for name, tensor in zip(node.outputs, results, strict=False):
            self._name(name, tensor, made)

    def _name(self, name: str, tensor: Tensor, made: set[Tensor]) -> None:
        if not name:
            return
        if name in self._scope:
            raise GraphError("two nodes give one value", where=name)
        if tensor in made:
            tensor.name = name
            made.discard(tensor)
            if stated := self._stated.get(name):
                self._name_dims(tensor, stated)
        self._scope[name] = tensor

    def _name_dims(self, tensor: Tensor, stated: Any) -> None:
        dims = stated.type.tensor_type.shape.dim
        if tensor.has_rank and len(dims) == len(tensor.shape):
            names = tuple(str(dim.dim_param) for dim in dims)
            tensor.dim_names = names if any(names) else ()

    def _lowered(self, node: Node) -> list[Tensor] | None:
        """As `_attempted`; what no rule foresaw is an error of the node as well."""
        try:
            return self._attempted(node)
        except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
            raise node.wrong("a node's operands and attributes do not fit", str(error)) from error

    def _attempted(self, node: Node) -> list[Tensor] | None:
        """A node's results by its importer, else by a record of its own; None without either."""
        missing = len(self.state.unsupported)
        try:
            return self.by_importer(node)
        except NotLoweredError as error:
            why, cause = str(error.args[0]), error.__cause__
        has_lists = any(isinstance(tensor, TensorList) for tensor in node.inputs)
        if find(f"CUSTOM:{PREFIX}{_label(node)}") is not None and not has_lists:
            return self.own_record(node)
        if isinstance(cause, UnknownRankError):
            raise cause
        if len(self.state.unsupported) > missing:
            return None
        types = " ".join("_" if t is None else t.dtype.name for t in node.inputs)
        entry = UnsupportedOp(node.name, _label(node), node.opset, f"{types} -> ?", why)
        self.state.unsupported.append(entry)
        return None

    def by_importer(self, node: Node) -> list[Tensor]:
        """A node's results by its importer.

        Raises:
            NotLoweredError: There is none, or no record means exactly what the node does, or a
                rank is not known, which is then the cause.
        """
        why = "Circlet does not know this kind of operator"
        cause: UnknownRankError | None = None
        function = find_importer(node.domain, node.kind, node.opset)
        attempts = [] if function is None else [function, self._halves.widened(function)]
        if function is None and _is_native(node):
            attempts = [self._halves.widened(self._own_floats)]
        elif node.kind not in _PASSING and any(
            t is not None and t.dtype.is_small for t in node.inputs
        ):
            attempts = attempts[1:]  # importers look at elements as numpy has them
        elif self._halves.are_wide(node.inputs):
            attempts.reverse()  # what was not rounded before need not be now
        for attempt in attempts:
            try:
                made = attempt(node)
                return made if isinstance(made, list) else [made]
            except NotLoweredError as error:
                why = why if error.args[0] == OTHER_TYPES else str(error.args[0])
            except UnknownRankError as error:
                why, cause = error.what, error
            node.ops.clear()
        raise NotLoweredError(why) from cause

    def own_record(self, node: Node) -> list[Tensor]:
        """A node as the operator of domain `onnx` that means exactly what the node does."""
        outputs = [self._stated_output(node, index) for index in range(len(node.outputs))]
        attrs = OnnxAttrs(stored_attributes(node, self.state.store), node.opset)
        code = f"{PREFIX}{_label(node)}"
        op = Op("CUSTOM", node.inputs, outputs, attrs, node.origin, custom_code=code)
        types = find(op.label)
        assert types is not None
        for index in range(types.required or 0):
            node[index]
        for tensor, inferred in zip(outputs, types.infer(op), strict=False):
            tensor.dtype = inferred.dtype
            tensor.shape, tensor.has_rank = inferred.shape, inferred.has_rank
        node.ops.append(op)
        return outputs

    def _own_floats(self, node: Node) -> list[Tensor]:
        """A node of half precision as its own operator over FLOAT32 operands."""
        outputs = self.own_record(node)
        for tensor in outputs:
            tensor.dtype = DType.FLOAT32
        return outputs

    def _stated_output(self, node: Node, index: int) -> Tensor:
        name = node.outputs[index] or f"{node.name}_output_{index}"
        stated = self._stated.get(node.outputs[index])
        if stated is not None and stated.type.tensor_type.elem_type:
            tensor = self._tensor(stated)
            tensor.name = name
            return tensor
        first = next((t.dtype for t in node.inputs if t is not None), DType.FLOAT32)
        return Tensor(name, first, (), has_rank=False)

    def _set_outputs(self) -> None:
        """Outputs by name; what is an input, a constant or given twice is copied."""
        written = {tensor for op in self.graph.ops for tensor in op.outputs}
        for proto in self.proto.output:
            tensor = self.value(proto.name, f"output of {self.graph.name}")
            if isinstance(tensor, TensorList):
                raise FormatError("outputs that are sequences are not read", where=proto.name)
            if tensor not in written or tensor in self.graph.outputs:
                tensor = self.copied(tensor, str(proto.name))
            self.graph.outputs.append(tensor)

    def copied(self, tensor: Tensor, name: str) -> Tensor:
        """A copy of a tensor, which an op of this graph makes."""
        from circlet.ops.facts import ShapeAttrs

        origin = Origin.of(self.next_id(), name)
        sizes = Tensor(f"{name}_sizes", DType.INT32, (len(tensor.shape),))
        result = tensor.like(name)
        result.has_rank = tensor.has_rank
        self.graph.ops.append(Op("SHAPE", [tensor], [sizes], ShapeAttrs(), origin))
        self.graph.ops.append(copy_op(tensor, result, origin, sizes))
        return result


def _is_native(node: Node) -> bool:
    """Whether native code computes FLOAT32 elements by the node's own record."""
    record = find(f"CUSTOM:{PREFIX}{_label(node)}")
    return record is not None and record.scalar is not None


def _label(node: Node) -> str:
    """An operator's kind, behind its domain where that is not the default one."""
    return f"{node.domain}.{node.kind}" if node.domain else node.kind
