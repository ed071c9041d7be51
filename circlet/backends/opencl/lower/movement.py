"""What moves elements: reshaping, slices, transposes, concatenations, paddings, constant gathers.

Where elements go is asked of the operator's record: it is evaluated on the numbers of elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.backends.opencl.emission import Argument, Constant, Emission
from circlet.backends.opencl.lowering import lowers, take
from circlet.ir import DType, Op, Tensor
from circlet.ops import get
from circlet.ops.operands import is_reshape, operand

Places = npt.NDArray[np.int64]
_FIRST = 1 << 20  # below are values that an operator fills in, as stored in 8 or 16 bits
_MOST_RANK = 6
_MOST_ELEMENTS = 1 << 24
_JOINING = ("CONCATENATION", "PACK")
_SOURCES = {"PADV2": (0, 2), "SPLIT": (1,)}
_TYPES = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_KINDS = (
    *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT"),
    *("SPLIT_V", "UNPACK", "PACK", "CONCATENATION", "PAD", "PADV2", "MIRROR_PAD", "TILE"),
    *("BROADCAST_TO", "REVERSE_V2", "GATHER", "GATHER_ND", "SPACE_TO_BATCH_ND"),
    *("BATCH_TO_SPACE_ND", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "RESIZE_NEAREST_NEIGHBOR"),
)


@dataclass(frozen=True)
class _Box:
    """Elements of a source that lie in a box of the result, by steps along its axes."""

    sizes: tuple[int, ...]
    start: int
    steps: tuple[int, ...]
    put: int
    puts: tuple[int, ...]


@lowers(*_KINDS)
def _move(op: Op, emission: Emission) -> None:
    sources = _sources(op)
    for index, tensor in enumerate(op.inputs):
        moves = index in sources
        take(moves or tensor is None or tensor.is_constant, "places are computed in the run")
    dtype = op.outputs[0].dtype
    take(dtype.has_numpy and dtype.bits in _TYPES, f"does not take {dtype.name}")
    if is_reshape(op) and emission.may_alias(op.outputs[0], operand(op, 0)):
        emission.alias(op.outputs[0], operand(op, 0))
        return
    total = sum(tensor.elements for tensor in (*sources.values(), *op.outputs))
    take(total < _MOST_ELEMENTS, "it moves more than 2**24 elements")
    for result, places in zip(op.outputs, _places(op, sources), strict=True):
        take(places.shape == result.static_shape, "its sizes depend on the data of a run")
        places = places.reshape(places.shape or (1,))
        _lower_one(op, emission, list(sources.values()), result, places)


def _sources(op: Op) -> dict[int, Tensor]:
    """The inputs whose elements move, by number."""
    joined = range(len(op.inputs)) if op.kind in _JOINING else (0,)
    return {number: operand(op, number) for number in _SOURCES.get(op.kind, joined)}


def _places(op: Op, sources: dict[int, Tensor]) -> list[Places]:
    """For each element of each result its number among those of all sources, or a fill value."""
    arrays: list[np.ndarray | None] = [
        None if tensor is None or tensor.data is None else np.asarray(tensor.data)
        for tensor in op.inputs
    ]
    first = _FIRST
    for number, tensor in sources.items():
        shape = tensor.static_shape
        arrays[number] = np.arange(first, first + prod(shape), dtype=np.int64).reshape(shape)
        first += prod(shape)
    if op.kind == "CONCATENATION":  # numbers of elements are not to be brought to other scales
        op = replace(op, outputs=[replace(result, quant=None) for result in op.outputs])
    return [np.asarray(found, np.int64) for found in get(op).evaluate(op, arrays)]


def _lower_one(
    op: Op, emission: Emission, sources: Sequence[Tensor], result: Tensor, places: Places
) -> None:
    source = sources[0]
    same = places.size == source.elements and bool(
        (places.reshape(-1) == np.arange(_FIRST, _FIRST + places.size)).all()
    )
    if same and _rescaling(op, source) is None and emission.may_alias(result, source):
        emission.alias(result, source)
        return
    filled = places < _FIRST
    if filled.any():
        _fill(emission, result, places[filled])
    first = _FIRST
    for tensor in sources:
        own = places - first
        inside = (own >= 0) & (own < tensor.elements)
        if inside.any():
            table = _rescaling(op, tensor)
            _copy(emission, (emission.value(tensor), table), result, own, inside)
        first += tensor.elements


def _fill(emission: Emission, result: Tensor, values: Places) -> None:
    take(bool((values == values[0]).all()), "it fills in several values")
    stored = np.asarray(values[0]).astype(result.dtype.numpy)
    bits = np.frombuffer(stored.tobytes(), f"u{stored.itemsize}")[0]
    name = _TYPES[result.dtype.bits]
    flags = {"T": name, "VALUE_T": "ulong" if name == "ulong" else "uint"}
    value = np.uint64(bits) if name == "ulong" else np.uint32(bits)
    kernel = emission.template("fill", flags)
    emission.per_element(kernel, [result, result.elements, value], result.elements)


def _copy(
    emission: Emission,
    source: tuple[Argument, Constant | None],
    result: Tensor,
    own: Places,
    inside: npt.NDArray[np.bool_],
) -> None:
    box, (given, rescaling) = _box(own, inside), source
    element = _TYPES[result.dtype.bits]
    if box is None:
        take(rescaling is None, "parts that lie scattered have other scales")
        table = np.where(inside, own, -1).astype(np.int32)
        places = Constant("places", lambda: np.ascontiguousarray(table))
        kernel = emission.template("gather", {"T": element})
        emission.per_element(kernel, [given, result, places, table.size], table.size)
        return
    flags = {"T": element, "RANK": max(len(box.sizes), 1), "TABLE": int(rescaling is not None)}
    kernel = emission.template("copy", flags)
    missing = _MOST_RANK - len(box.sizes)
    sizes = [*box.sizes, *[1] * missing][1:]
    steps, puts = ([*given, *[0] * missing] for given in (box.steps, box.puts))
    count = prod(box.sizes)
    tables = [] if rescaling is None else [rescaling]
    arguments = [given, result, *tables, count, box.start, box.put, *sizes, *steps, *puts]
    emission.per_element(kernel, arguments, count)


def _rescaling(op: Op, source: Tensor) -> Constant | None:
    """What each byte of a part becomes where CONCATENATION brings it to another scale."""
    if op.kind not in _JOINING or source.dtype is not DType.UINT8:
        return None
    bytes_ = np.arange(256, dtype=np.uint8)
    shape = (256, *[1] * (len(source.static_shape) - 1))
    (table,) = get(op).evaluate(replace(op, inputs=[source]), [bytes_.reshape(shape)])
    if np.array_equal(table.reshape(-1), bytes_):
        return None
    return Constant(source.name, lambda: np.ascontiguousarray(table.reshape(-1)))


def _box(own: Places, inside: npt.NDArray[np.bool_]) -> _Box | None:
    """The box that the elements of a source fill by even steps, or None."""
    corners = [(int(where.min()), int(where.max()) + 1) for where in np.nonzero(inside)]
    part = tuple(slice(*corner) for corner in corners)
    if not inside[part].all():
        return None
    found = own[part]
    start = int(found.flat[0]) if found.size else 0
    steps = [_second(found, axis) - start if found.shape[axis] > 1 else 0 for axis in _axes(found)]
    expected = np.full((1,) * found.ndim, start, np.int64)
    for axis, step in enumerate(steps):
        along = np.arange(found.shape[axis], dtype=np.int64) * step
        expected = expected + along.reshape([-1 if a == axis else 1 for a in _axes(found)])
    if not np.array_equal(expected, found):
        return None
    strides = [prod(own.shape[axis + 1 :]) for axis in _axes(own)]
    put = sum(low * stride for (low, _), stride in zip(corners, strides, strict=True))
    joined = list(_joined(zip(found.shape, steps, strides, strict=True)))
    if len(joined) > _MOST_RANK:
        return None
    columns = [tuple(int(row[i]) for row in joined) for i in range(3)]
    return _Box(columns[0], start, columns[1], put, columns[2])


def _axes(array: np.ndarray) -> range:
    return range(array.ndim)


def _second(array: Places, axis: int) -> int:
    return int(array[tuple(int(a == axis) for a in _axes(array))])


def _joined(axes: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes of more than one element, neighbours joined where one goes on from the other."""
    found: list[tuple[int, int, int]] = []
    for size, step, put in axes:
        if size == 1:
            continue
        if found and found[-1][1] == size * step and found[-1][2] == size * put:
            found[-1] = (found[-1][0] * size, step, put)
        else:
            found.append((size, step, put))
    return found
