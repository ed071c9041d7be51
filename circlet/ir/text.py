"""Prints models: one op per line; `circlet.ir.parse` reads the text back.

graph "main"
in %x: INT8[1,4] scale=[0.5] zero=-3
const %w: FLOAT32[2] = [1.0, 2.0]
%y: FLOAT32[?,2] = ADD(%x, %w, _) {activation="RELU"} from 3 "y"
out %y
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass

import numpy as np

from circlet.ir.graph import Graph, Model, Op, RawAttrs, Shape, Signature, Tensor
from circlet.ir.origin import Origin
from circlet.ir.quant import BlockwiseQuant, OpaqueQuant, Quantization
from circlet.ir.text_values import REFERENCE_NAME, format_number, format_value

INLINE_ELEMENTS = 16


def to_text(subject: Model | Graph, *, data: bool = True) -> str:
    """A model or graph as text.

    Args:
        data: Whether constants of more than 16 elements are stored, in a section at the end;
            without them the text is for reading only.
    """
    printer = _Printer(data)
    if isinstance(subject, Model):
        printer.model(subject)
    else:
        printer.graph(subject)
    return "\n".join([*printer.lines, *printer.payload_lines()]) + "\n"


def shape_text(shape: Shape, has_rank: bool = True) -> str:
    """Sizes in brackets, `?` where unknown; a leading `*` means that the rank is open."""
    sizes = ",".join("?" if size is None else str(size) for size in shape)
    return f"[{sizes}]" if has_rank else f"[*{sizes}]"


class _Printer:
    """Collects lines, and the payloads that go to the end."""

    def __init__(self, data: bool) -> None:
        self.lines: list[str] = []
        self._data = data
        self._payloads: list[np.ndarray] = []
        self._graphs: dict[Graph, int] = {}

    def model(self, model: Model) -> None:
        facts = {
            "description": model.description,
            "source_format": model.source_format,
            "source_path": model.source_path,
            "extra": model.extra,
        }
        self.lines.append(_joined("model", *_options(facts)))
        self._graphs = {graph: index for index, graph in enumerate(model.graphs)}
        names = [self.graph(graph) for graph in model.graphs]
        for signature in model.signatures:
            self._signature(signature, model, names)
        for key, blob in model.metadata.items():
            self.lines.append(f"metadata {json.dumps(key)} = {self._payload(blob)}")

    def graph(self, graph: Graph) -> dict[Tensor, str]:
        """Print a graph; the references of its tensors."""
        scope = _Scope(graph)
        self.lines.append(
            _joined(f"graph {json.dumps(graph.name)}", *_options({"extra": graph.extra}))
        )
        for tensor in graph.inputs:
            self.lines.append(f"in {self._definition(tensor, scope)}")
        for tensor in scope.declared():
            word = "const" if tensor.is_constant else "tensor"
            self.lines.append(f"{word} {self._definition(tensor, scope)}")
        for op in graph.ops:
            self.lines.append(self._op(op, scope))
        self.lines.append(_joined("out", scope.references(graph.outputs)))
        return scope.names

    def payload_lines(self) -> Iterator[str]:
        for index, array in enumerate(self._payloads):
            code = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
            yield f'payload ${index} {array.dtype.name}{shape_text(array.shape)} "{code}"'

    def _definition(self, tensor: Tensor, scope: _Scope) -> str:
        """The reference alone where the tensor has been defined before."""
        if not scope.define(tensor):
            return scope.names[tensor]
        name = "" if scope.names[tensor] == f"%{tensor.name}" else json.dumps(tensor.name)
        kind = f"{tensor.dtype.name}{shape_text(tensor.shape, tensor.has_rank)}"
        head = _joined(scope.names[tensor], name) + f": {kind}"
        stored = "" if tensor.data is None else f"= {self._constant(tensor, tensor.data)}"
        return _joined(head, scope.position(tensor), *_tensor_options(tensor, scope), stored)

    def _op(self, op: Op, scope: _Scope) -> str:
        outputs = ", ".join(self._definition(tensor, scope) for tensor in op.outputs)
        facts = {"version": op.version if op.version != 1 else None, "code": op.custom_code}
        policy = op.requantization
        stated = None if policy is None else (policy.rounding, policy.accumulator_bits)
        inner = f"intermediates({scope.references(op.intermediates)})" if op.intermediates else ""
        return _joined(
            outputs or "_",
            f"= {op.kind}({scope.references(op.inputs)})",
            attributes_text(op.attrs),
            *_options(facts | {"requantization": stated, "extra": op.extra}),
            inner,
            self._regions(op),
            f"from {_origin_text(op.origin)}",
        )

    def _regions(self, op: Op) -> str:
        """The graphs that the op runs, by number; a graph printed alone has no numbers."""
        if not op.regions or not self._graphs:
            return ""
        return f"regions({', '.join(str(self._graphs[region]) for region in op.regions)})"

    def _constant(self, tensor: Tensor, data: np.ndarray) -> str:
        plain = data.dtype.kind in "iufb" and data.shape == tensor.shape
        if plain and data.size <= INLINE_ELEMENTS and bool(np.isfinite(data).all()):
            return f"[{_numbers(data.reshape(-1))}]"
        return self._payload(data)

    def _payload(self, array: np.ndarray) -> str:
        if not self._data:
            return "..."
        self._payloads.append(array)
        return f"${len(self._payloads) - 1}"

    def _signature(
        self, signature: Signature, model: Model, names: list[dict[Tensor, str]]
    ) -> None:
        index = model.graphs.index(signature.graph)

        def side(tensors: Mapping[str, Tensor]) -> str:
            pairs = (f"{json.dumps(key)}: {names[index][t]}" for key, t in tensors.items())
            return f"({', '.join(pairs)})"

        sides = f"{side(signature.inputs)} -> {side(signature.outputs)}"
        self.lines.append(f"signature {json.dumps(signature.key)} graph {index} {sides}")


class _Scope:
    """References of one graph's tensors, and which of them are defined so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        inner = (tensor for op in graph.ops for tensor in op.intermediates)
        everything = dict.fromkeys([*graph.tensors, *graph.used_tensors(), *inner])
        counts = Counter(tensor.name for tensor in everything)
        self._positions = {tensor: index for index, tensor in enumerate(everything)}
        self.names = {
            tensor: _reference(tensor.name, counts[tensor.name] == 1, index)
            for tensor, index in self._positions.items()
        }
        self._defined: set[Tensor] = set()
        written = [tensor for op in graph.ops for tensor in op.outputs]
        computed = frozenset(written).difference(graph.inputs)
        self._declared = [t for t in everything if t not in computed]
        order = dict.fromkeys([*graph.inputs, *self._declared, *written])
        self._in_order = list(order) == list(everything)

    def declared(self) -> Iterator[Tensor]:
        """Tensors that no op defines and that are not defined yet."""
        return (tensor for tensor in self._declared if tensor not in self._defined)

    def define(self, tensor: Tensor) -> bool:
        """Whether this is the first mention."""
        first = tensor not in self._defined
        self._defined.add(tensor)
        return first

    def place(self, tensor: Tensor) -> int:
        """The tensor's place in the graph's list."""
        return self._positions[tensor]

    def position(self, tensor: Tensor) -> str:
        """The tensor's place in the graph's list, where it does not follow from the text."""
        return "" if self._in_order else f"@{self._positions[tensor]}"

    def references(self, tensors: Iterable[Tensor | None]) -> str:
        """References between commas, `_` for an omitted one."""
        return ", ".join("_" if tensor is None else self.names[tensor] for tensor in tensors)


def _reference(name: str, unique: bool, index: int) -> str:
    return f"%{name}" if unique and REFERENCE_NAME.fullmatch(name) else f"%{index}"


def _tensor_options(tensor: Tensor, scope: _Scope) -> list[str]:
    facts: dict[str, object] = {"variable": tensor.is_variable or None}
    default = tensor.default_shape
    if default is not None and default != tensor.shape:
        facts["default"] = list(default)
    if tensor.sparsity is not None:
        facts["sparsity"] = vars(tensor.sparsity)
    quant = [] if tensor.quant is None else list(_quant_options(tensor.quant, scope))
    return [*quant, *_options(facts), *_options({"extra": tensor.extra})]


def _quant_options(quant: Quantization, scope: _Scope) -> Iterator[str]:
    yield f"scale=[{_numbers(quant.scale)}]"
    yield f"zero={_zero_points(quant)}"
    if quant.axis:
        yield f"axis={quant.axis}"
    for name, values in (("min", quant.minimum), ("max", quant.maximum)):
        if values.size:
            yield f"{name}=[{_numbers(values)}]"
    details = quant.details
    if isinstance(details, BlockwiseQuant):
        zeros = -1 if details.zero_points is None else scope.place(details.zero_points)
        places = (scope.place(details.scales), zeros, details.block_size)
        yield f"blockwise={format_value(places)}"
    elif isinstance(details, OpaqueQuant):
        yield f"details={format_value((details.table, details.fields))}"


def _zero_points(quant: Quantization) -> str:
    """One number where it holds for every scale."""
    zeros = quant.zero_point
    if zeros.size and zeros.shape == quant.scale.shape and bool((zeros == zeros[0]).all()):
        return str(int(zeros[0]))
    return f"[{_numbers(zeros)}]"


def attributes_text(attrs: object) -> str:
    """Attributes that differ from their defaults, in braces; "" for none."""
    if isinstance(attrs, RawAttrs):
        custom = f", {format_value(attrs.custom)}" if attrs.custom else ""
        return f"raw({json.dumps(attrs.table)}, {format_value(attrs.fields)}{custom})"
    if not is_dataclass(attrs):
        return ""
    values = ((field, getattr(attrs, field.name)) for field in fields(attrs))
    shown = [f"{f.name}={format_value(v)}" for f, v in values if not _is_default(f, v)]
    return f"{{{', '.join(shown)}}}" if shown else ""


def _is_default(field: Field[object], value: object) -> bool:
    same = type(value) is type(field.default) and value == field.default
    return field.default is not MISSING and same


def _origin_text(origin: Origin) -> str:
    return " + ".join(f"{source.id} {json.dumps(source.name)}" for source in origin.sources)


def _numbers(values: np.ndarray) -> str:
    if values.dtype.kind != "f":
        return ", ".join(str(int(value)) for value in values)
    return ", ".join(format_number(value) for value in values)


def _options(facts: Mapping[str, object]) -> list[str]:
    """`name=value` for each value that says something."""
    return [f"{k}={format_value(v)}" for k, v in facts.items() if v not in (None, "", {})]


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
