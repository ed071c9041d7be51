"""Operator records: everything that is true of an operator regardless of backend."""

from circlet.ops.record import (
    Arrays,
    Cost,
    NoAttrs,
    OpDef,
    QuantRule,
    Rule,
    TensorType,
    all_records,
    attribute_names,
    dtype_text,
    find,
    get,
    register,
    unsupported_reason,
)

__all__ = [
    "Arrays",
    "Cost",
    "NoAttrs",
    "OpDef",
    "QuantRule",
    "Rule",
    "TensorType",
    "all_records",
    "attribute_names",
    "dtype_text",
    "find",
    "get",
    "register",
    "unsupported_reason",
]
