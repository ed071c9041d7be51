"""Facts about an op's operands that many records ask for."""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Quantization, Shape, Tensor
from circlet.ops.opdef import Rule, TensorType, find
from circlet.ops.opdef import moves_bytes as moves_bytes
from circlet.ops.requantize import limits as limits
from circlet.ops.view import whole_view

# A scale and its reciprocal are float32 numbers well inside the range.
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-70, 2.0**121  # a byte of -3.4e38 masks attention

MOST_DIMENSIONS = 64
"""Of an array, as numpy has them."""

QUANTISED = frozenset({DType.INT8, DType.UINT8, DType.INT16})


def operand(op: Op, index: int) -> Tensor:
    """Input `index`, which must be present; GraphError where it is omitted."""
    inputs = op.inputs
    tensor = inputs[index] if index < len(inputs) else None
    if tensor is None:
        raise GraphError(f"{op.label} needs input {index}", where=op.name)
    return tensor


def known_ints(tensor: Tensor | None) -> tuple[int, ...] | None:
    """The elements of a constant integer tensor, or None where it is not constant."""
    if tensor is None or tensor.data is None or not tensor.dtype.is_integer:
        return None
    return tuple(int(value) for value in np.asarray(tensor.data).reshape(-1))


def listed_count(op: Op, index: int) -> int | None:
    """How many sizes or axes an operand lists; None where that is open.

    Raises:
        GraphError: They are more than an array has dimensions: none may be made of so many.
    """
    shape = operand(op, index).shape
    count = shape[0] if len(shape) == 1 else None
    if count is not None and count > MOST_DIMENSIONS:
        why = f"{count}, the most are {MOST_DIMENSIONS}"
        raise GraphError("more sizes are listed than arrays have", where=op.name, why=why)
    return count


def listed_sizes(op: Op, index: int) -> Shape | None:
    """The sizes that an operand lists, or as many open ones; None where their number is open.

    Raises:
        GraphError: As `listed_count`.
    """
    known, count = known_ints(op.input(index)), listed_count(op, index)
    if known is not None:
        return known
    return None if count is None else (None,) * count


def data_inputs(op: Op) -> list[Tensor]:
    """The inputs whose elements an op computes from; axes and sizes are not among them."""
    record = find(op.kind)
    if record is None or not record.shape_inputs:
        return [tensor for tensor in op.inputs if tensor is not None]
    shapes = record.shape_inputs
    return [t for i, t in enumerate(op.inputs) if t is not None and i not in shapes]


def is_reshape(op: Op) -> bool:
    """Whether an op changes sizes alone."""
    record = find(op.kind)
    return record is not None and record.view is whole_view


def always(op: Op) -> bool:
    """Of an identity: types, scales and sizes that agree are all it takes."""
    return True


def holds_only(index: int, value: int) -> Callable[[Op], bool]:
    """Whether input `index` is constant and every element of it has a value."""

    def holds(op: Op) -> bool:
        values = known_ints(op.input(index))
        return values is not None and all(element == value for element in values)

    return holds


def ranked(op: Op) -> bool:
    """Whether the ranks of all inputs are known before a run."""
    tensors = (tensor for tensor in op.inputs if tensor is not None)
    return all(tensor.has_rank or tensor.is_constant for tensor in tensors)


def when_ranked(name: str, holds: Callable[[Op], bool], message: str) -> Rule:
    """A rule about sizes, which a run checks where a rank is not known before it."""
    return Rule(name, lambda op: not ranked(op) or holds(op), message)


def infer_ranked(infer: Callable[[Op], list[TensorType]]) -> Callable[[Op], list[TensorType]]:
    """Inference that repeats the stated output types where the rank of an input is not known."""

    def inferred(op: Op) -> list[TensorType]:
        if ranked(op):
            return infer(op)
        return [TensorType(output.dtype, output.shape) for output in op.outputs]

    return inferred


def count(shape: Shape) -> int | None:
    """Number of elements, or None while some size is unknown."""
    sizes = [size for size in shape if size is not None]
    return prod(sizes) if len(sizes) == len(shape) else None


def sizes_agree(left: Shape, right: Shape) -> bool:
    """Whether two lists of sizes may be the same; an unknown size may be any."""
    if len(left) != len(right):
        return False
    return all(a == b or a is None or b is None for a, b in zip(left, right, strict=True))


def same_as_first(op: Op) -> list[TensorType]:
    """One output of the type and sizes of input 0."""
    first = operand(op, 0)
    return [TensorType(first.dtype, first.shape)]


def scale_of(tensor: Tensor) -> float:
    """The per-tensor scale, a float32 value."""
    return float(_quant(tensor).first[0])


def zero_of(tensor: Tensor) -> int:
    """The per-tensor zero point."""
    return _quant(tensor).first[1]


def is_affine(tensor: Tensor, least: float = _SMALLEST_SCALE) -> bool:
    """Whether integers have one scale, from the least to 2**121, and one zero point.

    Files exist whose uint8 zero point is -128, and LiteRT runs them: 8-bit types share one range.
    """
    quant = tensor.quant
    if quant is None or quant.scale.size != 1 or quant.zero_point.size != 1:
        return False
    if not tensor.dtype.is_integer:
        return False
    scale, zero = quant.first
    low, high = (-128, 255) if tensor.dtype.bits == 8 else limits(tensor.dtype)
    return bool(least <= scale <= _LARGEST_SCALE) and low <= zero <= high


def affine(*inputs: int, least: float = _SMALLEST_SCALE) -> Rule:
    """Rule: the named 8- and 16-bit inputs, and all such outputs, have scale and zero point."""

    def holds(op: Op) -> bool:
        tensors = [*(op.input(index) for index in inputs), *op.outputs]
        return all(t is None or t.dtype not in QUANTISED or is_affine(t, least) for t in tensors)

    scales = f"2**{log2(least):.0f} to 2**{log2(_LARGEST_SCALE):.0f}"
    message = f"8- and 16-bit integers need one scale, {scales}, and one zero point in range"
    return Rule("quantised", holds, message, sized=False)


def same_quant(index: int = 0) -> Rule:
    """Rule: an 8- or 16-bit output has the scale and zero point of input `index`."""

    def holds(op: Op) -> bool:
        source, result = operand(op, index), op.outputs[0]
        if source.dtype not in QUANTISED or source.quant is None or result.quant is None:
            return True
        return source.quant.same_as(result.quant)

    message = "the output must share the input's scale and zero point"
    return Rule("same-scale", holds, message, sized=False)


def same_dtypes(*inputs: int) -> Rule:
    """Rule: the named inputs have one element type."""

    def holds(op: Op) -> bool:
        return len({operand(op, index).dtype for index in inputs}) == 1

    return Rule("same-types", holds, "the data inputs must have one element type", sized=False)


def present(array: np.ndarray | None) -> np.ndarray:
    """The array of an operand that the rules guarantee."""
    if array is None:
        raise GraphError("an operand that must be present has no value")
    return array


def _quant(tensor: Tensor) -> Quantization:
    if tensor.quant is None or not tensor.quant.is_affine:
        raise GraphError("a quantised tensor has no scale", where=tensor.name)
    return tensor.quant
