"""REDUCE_WINDOW, STABLEHLO_REDUCE_WINDOW and STABLEHLO_REDUCE: elements joined by one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.checks import one_of
from circlet.ops.guard import look, working
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType
from circlet.ops.operands import (
    count,
    known_ints,
    operand,
    present,
    same_dtypes,
    when_ranked,
)
from circlet.ops.stablehlo.pad import Spread, spread_out, spread_size
from circlet.ops.stablehlo.regions import JOINS, join_of
from circlet.ops.stablehlo.types import (
    LITERT,
    define,
    distinct_axes,
    forms,
)

_WINDOWED = ("FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL")
_MOST = 1 << 31

# As LiteRT joins what it has with the next element; of logic, any type holds 0 or 1.
_FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MAXIMUM": lambda a, b: np.where(a >= b, a, b),
    "MINIMUM": lambda a, b: np.where(a <= b, a, b),
    "ALL": lambda a, b: np.logical_and(a, b).astype(a.dtype),
    "ANY": lambda a, b: np.logical_or(a, b).astype(a.dtype),
}


@dataclass(frozen=True)
class Windows:
    """Windows over a tensor, and what is put between and around its elements before, by axes."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    base_dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def spread(self, shape: Shape) -> Shape:
        """Sizes of what the windows slide over."""
        rows = zip(shape, self.base_dilations, self.padding, strict=True)
        return tuple(spread_size(size, *pads, step - 1) for size, step, pads in rows)

    def output(self, shape: Shape) -> Shape:
        """How many windows fit along each axis."""
        rows = zip(self.spread(shape), self.sizes, self.strides, self.dilations, strict=True)
        return tuple(
            None if size is None else max(0, (size - (window - 1) * step - 1) // stride + 1)
            for size, window, stride, step in rows
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing is put between or around elements."""
        return set(self.base_dilations) <= {1} and not any(map(any, self.padding))


@dataclass(frozen=True)
class ReduceWindowAttrs:
    """How the elements of a window are joined."""

    reduce_function: str = "UNSUPPORTED"


@dataclass(frozen=True)
class StablehloReduceWindowAttrs:
    """Windows, each list empty where it is 1, or no padding, throughout; a graph joins elements."""

    window_dimensions: tuple[int, ...] = ()
    window_strides: tuple[int, ...] = ()
    base_dilations: tuple[int, ...] = ()
    window_dilations: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()


def windows_of(op: Op) -> Windows | None:
    """The windows of either kind; None where the operands do not say them yet."""
    attrs = op.attrs
    if isinstance(attrs, StablehloReduceWindowAttrs):
        ones = (1,) * len(attrs.window_dimensions)
        padding = attrs.padding or (0,) * 2 * len(ones)
        return Windows(
            attrs.window_dimensions,
            attrs.window_strides or ones,
            attrs.window_dilations or ones,
            attrs.base_dilations or ones,
            tuple(zip(padding[::2], padding[1::2], strict=False)),
        )
    lists = [known_ints(op.input(index)) for index in (2, 3, 4)]
    if None in lists:
        return None
    sizes, strides, dilations = (found or () for found in lists)
    return Windows(sizes, strides, dilations, (1,) * len(sizes), ((0, 0),) * len(sizes))


def window_join(op: Op) -> str | None:
    """How either kind joins elements; None for what no name says."""
    if isinstance(op.attrs, ReduceWindowAttrs):
        return op.attrs.reduce_function if op.attrs.reduce_function in JOINS else None
    return join_of(op)


def _windows_fit(op: Op) -> bool:
    windows, source = windows_of(op), operand(op, 0).shape
    if windows is None:
        return False
    lists = (windows.sizes, windows.strides, windows.dilations, windows.base_dilations)
    if not source or any(len(each) != len(source) for each in (*lists, windows.padding)):
        return False
    bounded = all(1 <= value < _MOST for each in lists for value in each)
    pads = all(abs(value) < _MOST for pair in windows.padding for value in pair)
    return bounded and pads


def _sizes_are_left(op: Op) -> bool:
    windows = windows_of(op)
    spread = () if windows is None else windows.spread(operand(op, 0).shape)
    return all(size is None or size >= 0 for size in spread)


def _infer_windows(op: Op) -> list[TensorType]:
    source, windows = operand(op, 0), windows_of(op)
    unknown = (None,) * len(source.shape)
    return [TensorType(source.dtype, windows.output(source.shape) if windows else unknown)]


def _evaluate_windows(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, start, windows = present(inputs[0]), present(inputs[1]).reshape(()), windows_of(op)
    if windows is None or len(windows.sizes) != source.ndim:
        raise GraphError("windows do not fit what they slide over", where=op.name)
    if windows.is_plain:
        return [_joined(op, windows, source, start)]
    sizes = [size or 0 for size in windows.spread(source.shape)]
    places = zip(windows.padding, windows.base_dilations, sizes, strict=True)
    with working(prod(sizes) * source.itemsize, op, "what its windows slide over"):
        spread = [Spread(pads[0], step, n) for pads, step, n in places]
        return [_joined(op, windows, spread_out(source, spread, start), start)]


def _joined(op: Op, windows: Windows, source: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The elements of each window joined, one place of all windows after the other."""
    join, shape = _FUNCTIONS[window_join(op) or ""], _static(windows, source.shape)
    total = np.full(shape, start, source.dtype)
    if not total.size:
        return total
    for place in product(*map(range, windows.sizes)):
        look()
        rows = zip(place, windows.dilations, windows.strides, shape, strict=True)
        taken = tuple(
            slice(at * step, at * step + (n - 1) * stride + 1, stride)
            for at, step, stride, n in rows
        )
        total = join(total, source[taken])
    return np.asarray(total, source.dtype)


def _static(windows: Windows, shape: Sequence[int]) -> tuple[int, ...]:
    """How many windows fit into what has its padding already."""
    rows = zip(shape, windows.sizes, windows.strides, windows.dilations, strict=True)
    return tuple(max(0, (n - (w - 1) * step - 1) // stride + 1) for n, w, stride, step in rows)


def _windows_cost(op: Op) -> Cost:
    windows, source, result = windows_of(op), operand(op, 0), op.outputs[0]
    elements = prod(windows.sizes) if windows else source.elements
    spread = windows.spread(source.static_shape) if windows else ()
    moved = source.size_bytes + result.size_bytes
    work = result.elements * elements + prod(size or 0 for size in spread)
    return Cost(bytes=moved, arithmetic=work)


def _single_start(op: Op) -> bool:
    return count(operand(op, 1).shape) in (1, None)


_WINDOW_RULES = (
    same_dtypes(0, 1),
    Rule("start", _single_start, "the value to start with must be one element"),
    when_ranked(
        "windows", _windows_fit, "sizes, strides and dilations must be known, 1 up, one per axis"
    ),
    when_ranked("padding", _sizes_are_left, "no axis may be cut off by more than there is"),
)

define(
    OpDef(
        kind="REDUCE_WINDOW",
        attrs=ReduceWindowAttrs,
        arity=(5, 5),
        required=5,
        dtypes=tuple(f"{name} {name} INT64 INT64 INT64 -> {name}" for name in _WINDOWED),
        infer=_infer_windows,
        evaluate=_evaluate_windows,
        shape_inputs=(2, 3, 4),
        rules=(one_of("reduce_function", JOINS), *_WINDOW_RULES),
        cost=_windows_cost,
    )
)

define(
    OpDef(
        kind="STABLEHLO_REDUCE_WINDOW",
        attrs=StablehloReduceWindowAttrs,
        arity=(2, 2),
        required=2,
        dtypes=forms(_WINDOWED, 2),
        infer=_infer_windows,
        evaluate=_evaluate_windows,
        rules=(
            Rule(
                "body",
                lambda op: join_of(op) is not None,
                "the body must be one sum, product, maximum, minimum, AND or OR of its inputs",
            ),
            *_WINDOW_RULES,
        ),
        cost=_windows_cost,
        element_regions=True,
    )
)


@dataclass(frozen=True)
class ReduceAttrs:
    """The axes that are reduced; a graph joins elements."""

    dimensions: tuple[int, ...] = ()


def _infer_reduce(op: Op) -> list[TensorType]:
    source, axes = operand(op, 0), op.attributes(ReduceAttrs).dimensions
    kept = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    return [TensorType(source.dtype, kept)]


_REDUCERS: dict[str, np.ufunc] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "ALL": np.bitwise_and,
    "ANY": np.bitwise_or,
}


def _evaluate_reduce(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, start = present(inputs[0]), present(inputs[1]).reshape(())
    axes, join = op.attributes(ReduceAttrs).dimensions, _REDUCERS[join_of(op) or ""]
    if source.dtype == np.float32 and join in (np.add, np.multiply):
        wide = np.float64 if join is np.add else np.float32
        total = np.asarray(join.reduce(source, axis=axes, dtype=wide)).astype(np.float32)
        return [np.asarray(join(total, start))]
    made = join.reduce(source, axis=axes, initial=start.item(), dtype=source.dtype)
    return [np.asarray(made, source.dtype)]


def _bits_are_whole(op: Op) -> bool:
    """Whether AND and OR join whole numbers or flags, bit by bit."""
    return join_of(op) not in ("ALL", "ANY") or not operand(op, 0).dtype.is_float


def _reduce_cost(op: Op) -> Cost:
    source = operand(op, 0)
    return Cost(bytes=source.size_bytes + op.outputs[0].size_bytes, arithmetic=source.elements)


define(
    OpDef(
        kind="STABLEHLO_REDUCE",
        attrs=ReduceAttrs,
        arity=(2, 2),
        required=2,
        dtypes=forms(LITERT, 2),
        infer=_infer_reduce,
        evaluate=_evaluate_reduce,
        rules=(
            same_dtypes(0, 1),
            Rule("start", _single_start, "the value to start with must be one element"),
            Rule(
                "body",
                lambda op: join_of(op) is not None and _bits_are_whole(op),
                "the body must be one sum, product, maximum, minimum, AND or OR of its inputs",
            ),
            when_ranked(
                "axes",
                lambda op: distinct_axes(
                    op.attributes(ReduceAttrs).dimensions, len(operand(op, 0).shape)
                ),
                "each axis must exist, and be named once",
            ),
        ),
        numerics="tolerance",
        cost=_reduce_cost,
        element_regions=True,
    )
)
