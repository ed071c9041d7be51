"""What the graphs of StableHLO kinds do to two elements, where that has a name."""

from __future__ import annotations

from circlet.ir import Graph, Op
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of

_JOINS = {
    "ADD": "ADD",
    "STABLEHLO_ADD": "ADD",
    "MUL": "MUL",
    "STABLEHLO_MULTIPLY": "MUL",
    "MAXIMUM": "MAXIMUM",
    "STABLEHLO_MAXIMUM": "MAXIMUM",
    "MINIMUM": "MINIMUM",
    "STABLEHLO_MINIMUM": "MINIMUM",
    "LOGICAL_AND": "ALL",
    "STABLEHLO_AND": "ALL",
    "LOGICAL_OR": "ANY",
    "STABLEHLO_OR": "ANY",
}
JOINS = tuple(dict.fromkeys(_JOINS.values()))
_ORDERS = {"LESS": "LT", "LESS_EQUAL": "LE", "GREATER": "GT", "GREATER_EQUAL": "GE"}


def _only_op(region: Graph) -> Op | None:
    """The one op of a graph, where its result is what the graph gives."""
    if len(region.ops) != 1 or region.outputs != region.ops[0].outputs:
        return None
    return region.ops[0]


def join_of(op: Op) -> str | None:
    """How the graph of an op joins two elements, by the names of REDUCE_WINDOW; None for others."""
    if len(op.regions) != 1:
        return None
    region, inner = op.regions[0], _only_op(op.regions[0])
    if inner is None or len(region.inputs) != 2:
        return None
    given = [tensor for tensor in inner.inputs if tensor is not None]
    plain = FLOAT_ACTIVATION_RANGES.get(activation_of(inner)) == FLOAT_ACTIVATION_RANGES["NONE"]
    both = len(given) == 2 and set(given) == set(region.inputs)
    return _JOINS.get(inner.kind) if both and plain else None


def is_update(op: Op) -> bool:
    """Whether the graph of an op gives the second of two elements."""
    if len(op.regions) != 1:
        return False
    region = op.regions[0]
    return not region.ops and len(region.inputs) == 2 and region.outputs == region.inputs[1:]


def order_of(op: Op) -> tuple[int, str] | None:
    """(operand, direction) by which the graph of a sort compares; None for any other graph."""
    if len(op.regions) != 1:
        return None
    region, inner = op.regions[0], _only_op(op.regions[0])
    if inner is None or len(inner.inputs) != 2:
        return None
    pairs = list(zip(region.inputs[::2], region.inputs[1::2], strict=False))
    compared = [pair for pair in pairs if [*pair] == inner.inputs]
    if not compared:
        return None
    said = vars(inner.attrs).get("comparison_direction") if inner.attrs is not None else None
    total = vars(inner.attrs).get("compare_type") == "FLOAT_TOTAL_ORDER" if said else False
    direction = said if inner.kind == "STABLEHLO_COMPARE" else _ORDERS.get(inner.kind)
    if total or direction not in _ORDERS.values():
        return None
    return pairs.index(compared[0]), str(direction)
