"""What the cost of an operator depends on: equal operators are measured once.

Two operators are equal where kind, attributes, and the shapes, types, kinds of quantisation and
storage of their operands agree. Weights do not matter, small whole numbers that say sizes, axes
and places do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from circlet.artifact.digest import digest
from circlet.ir import Op, Quantization, Tensor
from circlet.ir.regions import reachable
from circlet.ir.text import attributes_text, shape_text
from circlet.ops.opdef import Cost, cost_of, moves_bytes

_MOST_VALUES = 64
_DENSITY_STEPS = 20


class Features(NamedTuple):
    """What an operator does, by its record.

    Attributes:
        computing: Multiply-accumulates and other arithmetic.
        data_bytes: Activations read and written.
        weight_bytes: Constants read.
        outputs: Elements written.
    """

    computing: float
    data_bytes: float
    weight_bytes: float
    outputs: float


class Signature(NamedTuple):
    """An operator as costs know it.

    Attributes:
        key: The same for equal operators.
        label: Its kind, or that of a custom operator.
        group: "products", "arithmetic" or "movement": what it mostly does.
        types: Types of its data, its weights and its result.
        features: What it does.
        bytes: The bytes of all operands and results, constants included.
    """

    key: str
    label: str
    group: str
    types: str
    features: Features
    bytes: int

    @property
    def family(self) -> str:
        """Operators of one kernel family: kind and types."""
        return f"{self.label} {self.types}"

    @property
    def has_bytes(self) -> bool:
        """Whether data or weights are unsigned bytes, as ONE's files tell operators apart."""
        return "UINT8" in self.types.split("-")[:2]


def signature_of(op: Op) -> Signature:
    """The signature of an op; regions count by their operators."""
    text = "\n".join(_lines(op))
    cost = _whole_cost(op)
    constants = [t for t in op.inputs if t is not None and t.is_constant]
    weights = float(sum(tensor.size_bytes for tensor in constants))
    moved = moves_bytes(op).bytes
    outputs = float(sum(tensor.elements for tensor in op.outputs))
    features = Features(
        float(cost.computing + cost.operations), max(0.0, moved - weights), weights, outputs
    )
    group = "products" if cost.macs else "arithmetic" if cost.computing else "movement"
    return Signature(digest(text.encode()).hex(), op.label, group, _types(op), features, moved)


def _whole_cost(op: Op) -> Cost:
    """What the record of an op says, with that of the graphs that it runs, loops turning once."""
    costs = [cost_of(op)]
    for graph in {graph for region in op.regions for graph in reachable(region)}:
        costs += map(cost_of, graph.ops)
    return Cost(*(sum(column) for column in zip(*costs, strict=True)))


def _types(op: Op) -> str:
    given = [tensor for tensor in op.inputs if tensor is not None]
    data = next((tensor for tensor in given if not tensor.is_constant), None)
    weights = next((t for t in given if t.is_constant and t.elements > 1), None)
    made = op.outputs[0] if op.outputs else None
    return "-".join("none" if t is None else t.dtype.name for t in (data, weights, made))


def _lines(op: Op) -> Iterator[str]:
    policy = op.requantization
    stated = "" if policy is None else f"{policy.rounding} {policy.accumulator_bits}"
    yield f"{op.label} v{op.version} {attributes_text(op.attrs)} {stated}"
    seen: dict[Tensor, int] = {}
    for tensor in (*op.inputs, *op.outputs):
        if tensor is None:
            yield "_"
            continue
        yield f"{seen.setdefault(tensor, len(seen))} {_described(tensor)}"
    for graph in dict.fromkeys(graph for region in op.regions for graph in reachable(region)):
        for inner in graph.ops:
            yield from _lines(inner)


def _described(tensor: Tensor) -> str:
    parts = [tensor.dtype.name, shape_text(tensor.shape), _quantised(tensor.quant)]
    if tensor.is_variable:
        parts.append("variable")
    if tensor.data is not None:
        parts += ["constant", _stored(tensor, tensor.data)]
    return " ".join(parts)


def _quantised(quant: Quantization | None) -> str:
    """The kind of quantisation; kernels differ where zero points are 0, or scales many."""
    if quant is None or not quant.is_affine:
        return "" if quant is None or quant.details is None else quant.details.table
    zero = "symmetric" if quant.zero_point_range == (0, 0) else "offset"
    many = f"axis {quant.axis}" if quant.is_per_channel else "whole"
    return f"{many} {zero} {'' if quant.details is None else quant.details.table}"


def _stored(tensor: Tensor, data: np.ndarray) -> str:
    """Values that say sizes, axes and places; of weights, how many are zero where many are."""
    is_whole = data.dtype.kind in "iub" and tensor.quant is None
    if is_whole and data.size <= _MOST_VALUES:
        return str(data.reshape(-1).tolist())
    if tensor.sparsity is None or not data.size:
        return ""
    filled = np.count_nonzero(data) / data.size
    return f"sparse {round(filled * _DENSITY_STEPS)}"
