"""Graphs of the package as graphs of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import Enum

import numpy as np

from circlet.ir import Graph, Model, Op, Origin, Tensor
from circlet.ir.file_operators import file_operators
from circlet.ops.opdef import cost_of
from circlet.ops.work import main_op
from circlet.report.data import GraphItem, OperatorItem, TensorItem
from circlet.report.names import Path, paths
from circlet.words import counted

_SHOWN = 120
_SHOWN_CHANNELS = 4
Ops = Sequence[Op]


def source_graph(model: Model) -> GraphItem:
    """The operators of a file, those of all its graphs.

    What reading makes several of, as of operators of .onnx files, is one again. Operators of graphs
    that others run are shown in a group of their graph.
    """
    found: list[Ops] = []
    outer: list[Path] = []
    for number, graph in enumerate(model.graphs):
        operators = file_operators(graph.ops)
        found += operators
        outer += [(_graph_name(graph, number),) if number else ()] * len(operators)
    return graph_item(found, model.main, outer)


def _graph_name(graph: Graph, number: int) -> str:
    return f"graph {number}: {graph.name}" if graph.name else f"graph {number}"


def graph_item(groups: Sequence[Ops], graph: Graph, outer: Sequence[Path]) -> GraphItem:
    """Operators, each of one or several ops of one origin, over the tensors that they touch.

    Args:
        graph: Whose inputs and outputs are those of the network.
        outer: Groups around those that the operators' names tell.
    """
    listed = _Tensors(graph)
    inner = paths([shown_name(ops[0].origin) for ops in groups])
    places = [around + path for around, path in zip(outer, inner, strict=True)]
    readers = Counter(t for ops in groups for op in ops for t in _read(op))
    readers.update(graph.outputs)
    operators = tuple(
        _operator(ops, path, listed.number, readers)
        for ops, path in zip(groups, places, strict=True)
    )
    ends = tuple(map(listed.number, graph.inputs)), tuple(map(listed.number, graph.outputs))
    return GraphItem(operators, tuple(listed.items), *ends)


def _read(op: Op) -> dict[Tensor, None]:
    return dict.fromkeys(tensor for tensor in op.inputs if tensor is not None)


def shown_name(origin: Origin) -> str:
    """The name of the last of several sources: what they are joined into makes its results."""
    return origin.sources[-1].name


class _Tensors:
    """Numbers for tensors in the order in which they are met."""

    def __init__(self, graph: Graph) -> None:
        self.items: list[TensorItem] = []
        self._numbers: dict[Tensor, int] = {}
        self._roles = dict.fromkeys(graph.outputs, "output") | dict.fromkeys(graph.inputs, "input")

    def number(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return -1
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self.items)
            self.items.append(_tensor(tensor, self._roles.get(tensor, "")))
        return self._numbers[tensor]


def _tensor(tensor: Tensor, role: str) -> TensorItem:
    if not role:
        role = "constant" if tensor.is_constant else "computed"
        role = "variable" if tensor.is_variable else role
    size = tensor.size_bytes if tensor.data is None else tensor.data.nbytes
    shape = tuple(tensor.shape)
    return TensorItem(tensor.name, tensor.dtype.name, shape, size, role, _quantisation(tensor))


def _quantisation(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None or not quant.scale.size:
        return "" if quant is None or quant.details is None else quant.details.table
    scales = ", ".join(f"{scale:.6g}" for scale in quant.scale[:_SHOWN_CHANNELS])
    zeros = ", ".join(str(zero) for zero in np.unique(quant.zero_point)[:_SHOWN_CHANNELS])
    if quant.scale.size == 1:
        return f"scale {scales}, zero point {zeros}"
    more = ", ..." if quant.scale.size > _SHOWN_CHANNELS else ""
    count = counted(quant.scale.size, "scale")
    return f"{count} along axis {quant.axis}: {scales}{more}; zero point {zeros}"


def _operator(
    ops: Ops, path: Path, number: Callable[[Tensor | None], int], readers: Counter[Tensor]
) -> OperatorItem:
    costs = [cost_of(op) for op in ops]
    main = main_op(ops)
    attributes = dict(_attributes(main))
    if len(ops) > 1:
        attributes["read as"] = ", ".join(op.label for op in ops)
    inputs, outputs = _ends(ops, readers)
    return OperatorItem(
        kind=main.label,
        name=main.name,
        path=path,
        sources=tuple(source.id for source in main.origin.sources),
        inputs=tuple(map(number, inputs)),
        outputs=tuple(map(number, outputs)),
        attributes=attributes,
        macs=sum(cost.macs for cost in costs),
        operations=sum(cost.arithmetic + cost.operations for cost in costs),
        bytes=sum(tensor.size_bytes for tensor in (*inputs, *outputs) if tensor is not None)
        if len(ops) > 1
        else costs[0].bytes,
    )


def _ends(ops: Ops, readers: Counter[Tensor]) -> tuple[Sequence[Tensor | None], Sequence[Tensor]]:
    """What several ops read of others, and what they make that others read."""
    if len(ops) == 1:
        return ops[0].inputs, ops[0].outputs
    made = dict.fromkeys(tensor for op in ops for tensor in op.outputs)
    own = Counter(tensor for op in ops for tensor in _read(op))
    inputs = dict.fromkeys(t for op in ops for t in _read(op) if t not in made)
    outputs = [t for t in made if readers[t] > own[t] or not readers[t]]
    return list(inputs), outputs


def _attributes(op: Op) -> Iterator[tuple[str, str]]:
    """What the operator is told besides its operands, without what is as nobody said otherwise."""
    attrs = op.attrs
    if is_dataclass(attrs):
        for field in fields(attrs):
            value = getattr(attrs, field.name)
            if not _is_default(field, value):
                yield field.name, _text(value)
    if op.requantization is not None:
        yield "requantization", _text(op.requantization)
    for region in op.regions:
        yield f"graph {region.name}", counted(len(region.ops), "operator")


def _is_default(field: Field[object], value: object) -> bool:
    if field.default is not MISSING:
        return type(value) is type(field.default) and bool(np.all(value == field.default))
    return field.default_factory is not MISSING and not value


def _text(value: object) -> str:
    if isinstance(value, Enum):
        value = value.name
    if isinstance(value, np.ndarray):
        value = f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, Op):
        value = value.label
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def weights_bytes(model: Model) -> int:
    """Bytes of a file's constants; what tensors share counts once."""
    data = (t.data for graph in model.graphs for t in graph.constants())
    return sum({(d.ctypes.data, d.nbytes): d.nbytes for d in data if d is not None}.values())


def with_facts(graph: GraphItem, facts: Iterable[dict[str, object]]) -> GraphItem:
    """The graph with further fields of its operators, in order."""
    pairs = zip(graph.operators, facts, strict=True)
    return replace(graph, operators=tuple(replace(op, **own) for op, own in pairs))  # type: ignore[arg-type]
