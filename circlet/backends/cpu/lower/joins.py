"""How `join.h` calls element types, and the functions that join two elements."""

from __future__ import annotations

from circlet.ir import DType

JOIN_TYPES = {
    DType.FLOAT32: "JOIN_F32",
    DType.FLOAT64: "JOIN_F64",
    DType.INT8: "JOIN_I8",
    DType.UINT8: "JOIN_U8",
    DType.BOOL: "JOIN_U8",
    DType.INT16: "JOIN_I16",
    DType.UINT16: "JOIN_U16",
    DType.INT32: "JOIN_I32",
    DType.UINT32: "JOIN_U32",
    DType.INT64: "JOIN_I64",
    DType.UINT64: "JOIN_U64",
}
_OF_FLAGS = {"ADD": "ANY", "MUL": "ALL"}
_KEEP_FIRST = {"MAXIMUM": "LARGER", "MINIMUM": "SMALLER"}


def join_name(join: str, dtype: DType, *, keeps_first: bool) -> str:
    """The kernel's name of a function, by the names of REDUCE_WINDOW.

    `keeps_first` says which element comes of a pair that has no order.
    """
    if dtype is DType.BOOL:
        join = _OF_FLAGS.get(join, join)
    return f"JOIN_{_KEEP_FIRST.get(join, join) if keeps_first else join}"
