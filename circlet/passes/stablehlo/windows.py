"""Paddings, windows and reductions of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from circlet.ir import DType
from circlet.ir.builder import constant
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.stablehlo.pad import PadAttrs, pad_rows
from circlet.ops.stablehlo.reduce import ReduceAttrs, ReduceWindowAttrs, windows_of
from circlet.ops.stablehlo.regions import join_of
from circlet.passes.stablehlo.steps import Steps

# Elements that what is padded may have, beside those of the input: a small file may ask for more.
_FREE_ELEMENTS, _GROWTH = 1 << 20, 16
_PLAIN = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})


def _pad(steps: Steps) -> None:
    """PADV2 where nothing is cut off or put between, which convolutions can take in."""
    rows, value = pad_rows(steps.op), steps.operand(1)
    if not value.is_constant or any(min(row) < 0 or row[2] for row in rows):
        return
    pairs = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    steps.add("PADV2", [steps.operand(0), constant("paddings", pairs), value])


def _reduce_window(steps: Steps) -> None:
    """Padding is an op of its own; what joins elements has a name."""
    windows, join = windows_of(steps.op), join_of(steps.op)
    if windows is None or join is None:
        return
    source, start = steps.operand(0), steps.operand(1)
    if not windows.is_plain:
        padded = prod(size or 0 for size in windows.spread(source.static_shape))
        if padded > _FREE_ELEMENTS + _GROWTH * source.elements:
            return
        low, high = zip(*windows.padding, strict=True)
        between = tuple(step - 1 for step in windows.base_dilations)
        source = steps.add("STABLEHLO_PAD", [source, start], PadAttrs(low, high, between))
    lists = (windows.sizes, windows.strides, windows.dilations)
    given = [source, start, *(steps.ints(values, np.int64) for values in lists)]
    steps.add("REDUCE_WINDOW", given, ReduceWindowAttrs(join))


# The kinds that reduce and that join the start, and the types for which both mean the same.
_REDUCERS: Mapping[str, tuple[str, str, frozenset[DType]]] = {
    "ADD": ("SUM", "ADD", _PLAIN),
    "MUL": ("REDUCE_PROD", "MUL", _PLAIN),
    "MAXIMUM": ("REDUCE_MAX", "MAXIMUM", _PLAIN),
    "MINIMUM": ("REDUCE_MIN", "MINIMUM", _PLAIN),
    "ALL": ("REDUCE_ALL", "LOGICAL_AND", frozenset({DType.BOOL})),
    "ANY": ("REDUCE_ANY", "LOGICAL_OR", frozenset({DType.BOOL})),
}


def _reduce(steps: Steps) -> None:
    source, start, axes = steps.operand(0), steps.operand(1), steps.op.attributes(ReduceAttrs)
    reducer, join, types = _REDUCERS[join_of(steps.op) or ""]
    if source.dtype not in types or not axes.dimensions:
        return
    made = steps.add(reducer, [source, steps.ints(axes.dimensions)], ReducerAttrs(keep_dims=False))
    steps.add(join, [made, start])


WINDOWS: Mapping[str, Callable[[Steps], None]] = {
    "STABLEHLO_PAD": _pad,
    "STABLEHLO_REDUCE": _reduce,
    "STABLEHLO_REDUCE_WINDOW": _reduce_window,
}
